"""The same pictures as a keras.utils.PyDataset, by Pillow and NumPy: what programs do that are written in Python."""

import keras
import numpy as np
from PIL import Image

from tfperf.arrays import Float32Array, Int32Array
from tfperf.zoo.photos import SIZE, find_photos
from tfperf.zoo.photos_distortions import GREY
from tfperf.zoo.photos_folder import Part, list_photos
from tfperf.zoo.photos_pipeline import AREA, ASPECT, BRIGHTNESS, CONTRAST, DRAWS, SATURATION


class PhotoSequence(keras.utils.PyDataset):
    """Batches of pictures (batch, size, size, 3), 0 to 1, and class numbers (batch), anew in each epoch."""

    def __init__(
        self, paths: list[str], labels: list[int], size: int, batch: int, seed: int | None, workers: int,
        use_multiprocessing: bool,
    ) -> None:  # fmt: skip
        """seed: None for the files' order and the middle of each picture."""
        super().__init__(workers, use_multiprocessing)
        self.paths, self.labels, self.size, self.batch, self.seed = paths, labels, size, batch, seed
        self.epoch = 0

    def __len__(self) -> int:
        return -(-len(self.paths) // self.batch)

    def on_epoch_end(self) -> None:
        """Keras calls it before the first epoch, too."""
        self.epoch += 1

    def __getitem__(self, number: int) -> tuple[Float32Array, Int32Array]:
        rows = np.arange(len(self.paths))
        if self.seed is not None:
            np.random.default_rng([self.seed, self.epoch]).shuffle(rows)
        rows = rows[number * self.batch : (number + 1) * self.batch]
        return np.stack([self._read(int(row)) for row in rows]), np.array(self.labels, np.int32)[rows]

    def _read(self, row: int) -> Float32Array:
        draws = None
        if self.seed is not None:
            draws = np.random.default_rng([self.seed, self.epoch, row]).random(DRAWS, np.float32)
        with Image.open(self.paths[row]) as picture:
            box = find_box(picture.size, draws)
            cut = picture.convert("RGB").resize((self.size, self.size), Image.Resampling.BILINEAR, box)
        found = (np.asarray(cut) / 255).astype(np.float32)
        return found if draws is None else change_array(found, draws)


def find_box(size: tuple[int, int], draws: Float32Array | None) -> tuple[int, int, int, int]:
    """Left, top, right, bottom of what is cut out of a picture of that width and height, as in photos_pipeline.py."""
    width, height = size
    if draws is None:
        side = min(size)
        left, top = (width - side) // 2, (height - side) // 2
        return left, top, left + side, top + side
    area = (AREA[0] + draws[0] * (AREA[1] - AREA[0])) * width * height
    aspect = ASPECT ** (2 * draws[1] - 1)
    tall, wide = min(round((area / aspect) ** 0.5), height), min(round((area * aspect) ** 0.5), width)
    top, left = int(draws[2] * (height - tall)), int(draws[3] * (width - wide))
    return left, top, left + wide, top + tall


def change_array(picture: Float32Array, draws: Float32Array) -> Float32Array:
    """`photos_pipeline.change_picture` of one picture (H, W, 3) and its draws, by NumPy."""
    mirror, bright, contrast, colour = draws[4:]
    picture = picture if mirror < 0.5 else picture[:, ::-1]
    grey = (picture @ GREY.astype(np.float32))[..., None]
    picture = grey + (picture - grey) * (SATURATION[0] + colour * (SATURATION[1] - SATURATION[0]))
    around = 0.5 + BRIGHTNESS * (2 * bright - 1)
    picture = around + (picture - 0.5) * (CONTRAST[0] + contrast * (CONTRAST[1] - CONTRAST[0]))
    return np.clip(picture, 0, 1).astype(np.float32)


def load_photo_sequence(
    folder: str | None = None, part: Part = "train", count: int = 4000, size: int = SIZE, batch: int = 32,
    seed: int = 1, workers: int = 1, use_multiprocessing: bool = False,
) -> PhotoSequence:  # fmt: skip
    """As `tfperf.zoo.photos:load_photos`, with so many workers: threads, or processes. Raises: UserError."""
    paths, labels = list_photos(find_photos(folder, count), part)
    return PhotoSequence(paths, labels, size, batch, seed if part == "train" else None, workers, use_multiprocessing)
