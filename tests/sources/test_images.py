"""Folders of images: files and pixels are those of Keras, and faults name the file."""

import os

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tfperf.errors import UserError
from tfperf.sources.images import ImageFiles, decode_images, find_broken_image, list_images, split_images

SIZE = (9, 14)
NAMES = {
    "b": ["2.png", "10.JPG", "z/y/1.png", "m/1.png", "deep/1.gif", "deep.bmp"],
    "A": ["x.jpeg"],
    "c d": ["é.png", "gray.png", "same.png"],
}
FILES = ImageFiles(tuple(map(str, range(23))), np.repeat([0, 1, 2], [2, 10, 11]), ("p", "q", "r"))


@pytest.fixture
def folder(tmp_path):
    """Images of several formats, depths and sizes, one of them of the size that is asked for."""
    generator = np.random.default_rng(3)
    for name in (f"{top}/{name}" for top, names in NAMES.items() for name in names):
        height, width = SIZE if "same" in name else generator.integers(3, 40, 2)
        pixels = generator.integers(0, 256, (height, width, 3), np.uint8)
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels[..., 0] if "gray" in name else pixels).save(tmp_path / name)
    return tmp_path


def decode_all(files, channels=3):
    dataset = tf.data.Dataset.from_tensor_slices((list(files.paths), files.labels))
    return list(dataset.map(decode_images(SIZE, channels)).as_numpy_iterator())


def test_files_and_pixels_are_those_of_keras(folder):
    files = list_images(folder)
    peer = keras.utils.image_dataset_from_directory(
        folder, shuffle=False, interpolation="bilinear", image_size=SIZE, batch_size=None, verbose=False
    )
    assert list(files.paths) == peer.file_paths and list(files.classes) == peer.class_names and len(files) == 10
    assert files.labels.dtype == np.int64 and not files.ignored
    for (image, label), (want, number) in zip(decode_all(files), peer.as_numpy_iterator(), strict=True):
        assert image.dtype == np.float32 and image.shape == (*SIZE, 3) and label == number
        np.testing.assert_array_equal(image, want)


@pytest.mark.parametrize(("channels", "mode"), [(1, "grayscale"), (4, "rgba")])
def test_channels_are_those_of_keras(folder, channels, mode):
    files = list_images(folder)
    files = files.select(np.flatnonzero([path.endswith(".png") for path in files.paths]))
    peer = keras.utils.image_dataset_from_directory(
        folder, shuffle=False, color_mode=mode, image_size=SIZE, batch_size=None, verbose=False
    )
    dataset = tf.data.Dataset.from_tensor_slices([p for p in peer.file_paths if p.endswith(".png")])
    for (image, _), path in zip(decode_all(files, channels), dataset, strict=True):
        want = tf.image.resize(tf.io.decode_png(tf.io.read_file(path), channels), SIZE, "bilinear")
        np.testing.assert_array_equal(image, want)


def test_a_shape_is_known_before_an_image_is(folder):
    files = list_images(folder)
    dataset = tf.data.Dataset.from_tensor_slices((list(files.paths), files.labels)).map(decode_images(SIZE, 1))
    assert dataset.element_spec[0] == tf.TensorSpec((*SIZE, 1), tf.float32)
    image, _ = decode_images(SIZE, 3)(next(p for p in files.paths if "same" in p), 0)
    assert image.dtype == tf.float32  # outside of map, too, where the size is the image's own


def test_other_files_are_counted_and_hidden_ones_left_out(folder):
    for name in ("top.png", "b/notes.txt", "b/deep/Thumbs.db", ".hidden.png", "b/.x.png", ".git/x.png", "b/.y/x.png"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"x")
    files = list_images(folder)
    assert len(files) == 10 and files.ignored == 3 and files.classes == ("A", "b", "c d")


def test_folders_without_images_of_each_class_are_refused(folder):
    for name, said in (
        ("none", "cannot be read: .*must be a folder with a sub-folder"), ("b/2.png", "cannot be read: "),
        ("b/deep", "has no sub-folders; must have images"), ("", "has no images in empty, void; must have images"),
        ("void", "has no images; must have images"),
    ):  # fmt: skip
        (folder / "empty").mkdir(exist_ok=True)
        (folder / "void" / "deep").mkdir(parents=True, exist_ok=True)
        with pytest.raises(UserError, match=rf"{folder / name}: {said}"):
            list_images(folder / name)


def test_names_that_tensorflow_cannot_open_are_refused(tmp_path):
    (tmp_path / "a").mkdir()
    try:
        open(os.fsencode(tmp_path / "a") + b"/\xff.png", "wb").close()
    except OSError:
        pytest.skip("this disk has no such names")
    with pytest.raises(UserError, match="its name is not UTF-8"):
        list_images(tmp_path)


@pytest.mark.parametrize("name", ["2.png", "10.JPG", "deep/1.gif", "deep.bmp"])
def test_a_broken_image_is_found(folder, name):
    files = list_images(folder)
    assert find_broken_image(files.paths, SIZE, 3) is None and find_broken_image([], SIZE, 3) is None
    path = folder / "b" / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    found = find_broken_image(files.paths, SIZE, 3)
    assert found is not None and found.startswith(f"{path}: ") and "{{" not in found and "Iterator" not in found
    path.unlink()
    assert "No such file" in str(find_broken_image(files.paths, SIZE, 3))


def test_what_a_format_has_not_is_told(folder):
    assert (
        find_broken_image(list_images(folder).paths, SIZE, 4) == f"{folder}/A/x.jpeg: JPEG does not support 4 channels"
    )


@pytest.mark.parametrize(("share", "counts"), [(0.2, [1, 2, 2]), (0.01, [1, 1, 1]), (0.99, [1, 9, 10])])
def test_each_class_is_on_both_sides(share, counts):
    training, validation = split_images(FILES, share, 5)
    assert np.bincount(validation.labels).tolist() == counts and training.classes == validation.classes == FILES.classes
    assert sorted([*training.paths, *validation.paths], key=int) == list(FILES.paths)
    for side in (training, validation):
        rows = [int(path) for path in side.paths]
        assert rows == sorted(rows) and FILES.labels[rows].tolist() == side.labels.tolist()


def test_a_split_is_a_function_of_the_seed():
    sides = [split_images(FILES, 0.3, seed)[1].paths for seed in (5, 5, 6)]
    assert sides[0] == sides[1] != sides[2]
    firsts = {split_images(FILES, 0.1, seed)[1].paths[1] for seed in range(200)}
    assert firsts == set(map(str, range(2, 12)))  # each image of the class may be drawn


def test_a_single_image_cannot_be_split():
    files = FILES.select(np.arange(1, 23))
    with pytest.raises(UserError, match=r"got 0\.5; class p must have 2 images at least, not 1"):
        split_images(files, 0.5, 1)
