"""Images in a folder with one sub-folder for each class."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import tensorflow as tf

from tfperf.arrays import Indices, Int64Array
from tfperf.data.keys import Purpose, make_generator
from tfperf.errors import UserError

ORIGIN = re.compile(r"^.*Iterator::\S+: ")  # that tf.data puts before an error
SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png")  # in capitals, too; of a .gif the first picture
Decoder = Callable[[Any, Any], tuple[Any, Any]]


@dataclass(frozen=True)
class ImageFiles:
    """N images and their classes; ignored: how many files of the folder are no images of a class."""

    paths: tuple[str, ...]  # (N)
    labels: Int64Array  # (N): positions in `classes`
    classes: tuple[str, ...]
    ignored: int = 0

    def __len__(self) -> int:
        return len(self.paths)

    def select(self, rows: Indices) -> "ImageFiles":
        """Some of the images; all classes stay."""
        return replace(self, paths=tuple(self.paths[row] for row in rows), labels=self.labels[rows])


def list_images(folder: Path) -> ImageFiles:
    """The images of a folder's sub-folders, each of which is a class: by class, folder and name, in Keras' order.

    Images in folders of a class's folder are of that class. Hidden files and folders are left out.
    Raises: UserError for folders that cannot be read or have no classes, and for classes without an image.
    """
    try:
        tops = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and entry.name[0] != ".")
        files = {name: _list_files(os.path.join(folder, name)) for name in tops}
        beside = sum(entry.is_file() and entry.name[0] != "." for entry in os.scandir(folder))
    except OSError as error:
        raise UserError(
            f"{folder}: cannot be read: {error}; must be a folder with a sub-folder for each class"
        ) from None
    images = {name: [path for path in paths if path.lower().endswith(SUFFIXES)] for name, paths in files.items()}
    _refuse_images(folder, images)
    counts = [len(paths) for paths in images.values()]
    return ImageFiles(
        paths=tuple(path for paths in images.values() for path in paths),
        labels=np.repeat(np.arange(len(tops), dtype=np.int64), counts),
        classes=tuple(tops),
        ignored=beside + sum(map(len, files.values())) - sum(counts),
    )


def _list_files(top: str) -> list[str]:
    """All files below a folder, but for hidden ones and what links to folders lead to. Raises: OSError."""
    found = []
    for folder, folders, names in os.walk(top, onerror=_raise_error):
        folders[:] = [name for name in folders if name[0] != "."]
        found.append((folder, [os.path.join(folder, name) for name in sorted(names) if name[0] != "."]))
    return [path for _, paths in sorted(found) for path in paths]


def _raise_error(error: OSError) -> NoReturn:
    raise error


def _refuse_images(folder: Path, images: Mapping[str, Sequence[str]]) -> None:
    allowed = f"must have images ({', '.join(SUFFIXES)}) in one sub-folder for each class"
    if not images:
        raise UserError(f"{folder}: has no sub-folders; {allowed}")
    if not any(images.values()):
        raise UserError(f"{folder}: has no images; {allowed}")
    if empty := [name for name, paths in images.items() if not paths]:
        raise UserError(f"{folder}: has no images in {', '.join(empty)}; {allowed}")
    for path in (path for paths in images.values() for path in paths):
        try:
            path.encode()
        except UnicodeEncodeError:
            raise UserError(f"{path!r}: its name is not UTF-8, so TensorFlow cannot open it; must be renamed") from None


def split_images(files: ImageFiles, share: float, seed: int) -> tuple[ImageFiles, ImageFiles]:
    """Training and validation: of each class about `share` of the images validates, at least one on each side.

    Which ones is a function of the seed and of how many images each class has. Both sides keep the order.
    Raises: UserError for classes with a single image.
    """
    validates = np.zeros(len(files), np.bool_)
    for label, name in enumerate(files.classes):
        rows = np.flatnonzero(files.labels == label)
        if len(rows) < 2:
            raise UserError(f"data.validation: got {share}; class {name} must have 2 images at least, not {len(rows)}")
        count = min(max(round(share * len(rows)), 1), len(rows) - 1)
        validates[make_generator(seed, label, Purpose.SPLIT).permutation(rows)[:count]] = True
    return files.select(np.flatnonzero(~validates)), files.select(np.flatnonzero(validates))


def decode_images(size: tuple[int, int], channels: int) -> Decoder:
    """For tf.data's map: (path, label) to (image, label), the image (height, width, channels) in float32, 0 to 255.

    size: height and width, to which images are stretched or shrunk bilinearly. channels: 3 of all formats, 1 of
    .jpg and .png, 4 (with opacity) of .png and .bmp. Computes what `keras.utils.image_dataset_from_directory` does.
    """

    def decode_image(path: Any, label: Any) -> tuple[Any, Any]:
        image = tf.image.decode_image(tf.io.read_file(path), channels, expand_animations=False)
        image = tf.image.resize(image, size, "bilinear")
        image.set_shape((*size, channels))
        return image, label

    return decode_image


def find_broken_image(paths: Sequence[str], size: tuple[int, int], channels: int) -> str | None:
    """The first of the files that `decode_images` cannot decode, and why: `PATH: REASON`; None: all can be.

    Decodes them in turn, several at once, so that it takes about as long as an epoch: for after a failure.
    """
    decode = decode_images(size, channels)
    dataset = tf.data.Dataset.from_tensor_slices(tf.constant(list(paths), tf.string))
    # one pixel of each; of a shape alone nothing would be decoded
    dataset = dataset.map(lambda path: decode(path, 0)[0][0, 0, 0], tf.data.AUTOTUNE, deterministic=True)
    good = 0
    try:
        for _ in dataset:
            good += 1
    except tf.errors.OpError as error:
        return f"{paths[good]}: {ORIGIN.sub('', error.message.splitlines()[0])[:300]}"
    return None
