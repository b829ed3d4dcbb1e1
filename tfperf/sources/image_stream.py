"""A folder of images as a stream of batches, in an order that tfperf draws."""

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from tfperf.console.stages import ShowStage
from tfperf.sources.images import ImageFiles, decode_images, find_broken_image
from tfperf.sources.py_datasets import DrawOrder
from tfperf.sources.streams import BatchStream, limit_threads

AHEAD = 2  # batches that are made while a step is taken


class ImageStream(BatchStream):
    """Batches of images (batch, H, W, C) of 0 to 255, and class numbers (batch)."""

    name, has_own_order = "a folder of images", False

    def __init__(
        self, files: ImageFiles, image_size: tuple[int, int], channels: int, batch: int, draw_order: DrawOrder
    ) -> None:
        """draw_order: the images of a pass."""
        super().__init__()
        self.files, self.batch = files, min(batch, len(files.paths))
        self._draw_order, self._size, self._channels = draw_order, image_size, channels
        self._decode = decode_images(image_size, channels)
        self._threads: int | None = None  # None: TensorFlow's own
        self.element_spec = (
            tf.TensorSpec([None, *image_size, channels], tf.float32), tf.TensorSpec([None], tf.int64),
        )  # fmt: skip

    def find_fault(self) -> str | None:
        """The first file that is no image, and why."""
        return find_broken_image(self.files.paths, self._size, self._channels)

    @property
    def length(self) -> int:
        """The last batch may be shorter."""
        return -(-len(self.files.paths) // self.batch)

    @property
    def is_endless(self) -> bool:
        """It ends."""
        return False

    @property
    def source(self) -> tf.data.Dataset:
        """Of the first pass."""
        return self._make_pass(0, 0)

    def set_workers(self, count: int) -> None:
        """Threads of a pool of its own."""
        self._threads = count

    def start_pass(self, number: int, skip: int, show_stage: ShowStage) -> Iterator[Any]:
        """Any pass can be had at once."""
        return iter(self._make_pass(number, skip))

    def _make_pass(self, number: int, skip: int) -> tf.data.Dataset:
        rows = self._draw_order(number, len(self.files.paths))[skip * self.batch :]
        paths = [self.files.paths[row] for row in rows]
        images = tf.data.Dataset.from_tensor_slices((tf.constant(paths, tf.string), self.files.labels[rows]))
        decoded = images.map(self._decode, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        found = self.apply_function(decoded.batch(self.batch)).prefetch(AHEAD)
        return found if self._threads is None else limit_threads(found, self._threads)
