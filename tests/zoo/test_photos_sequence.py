"""Pictures as a PyDataset: each once an epoch, the same again when asked for, cut and recoloured as by tf.data."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tfperf.zoo.photos_folder import list_photos
from tfperf.zoo.photos_pipeline import DRAWS, _find_window, change_picture
from tfperf.zoo.photos_sequence import change_array, find_box, load_photo_sequence

SIZE = 24


def test_an_epoch_has_each_picture_once_and_the_next_one_others(folder):
    data = load_photo_sequence(folder, size=SIZE, batch=8, workers=2)
    assert len(data) == 4 and data.workers == 2
    epochs = []
    for _ in range(2):
        data.on_epoch_end()
        batches = [data[number] for number in range(4)]
        for number, again in ((2, data), (1, pickle.loads(pickle.dumps(data)))):
            np.testing.assert_array_equal(again[number][0], batches[number][0])
        assert [x.shape for x, _ in batches] == [(8, SIZE, SIZE, 3)] * 3 + [(2, SIZE, SIZE, 3)]
        x, y = (np.concatenate(one) for one in zip(*batches, strict=True))
        assert x.dtype == np.float32 and y.dtype == np.int32 and x.min() >= 0 and x.max() <= 1
        assert sorted(y) == list_photos(Path(folder), "train")[1]
        epochs.append(x)
    assert len(np.unique(np.concatenate(epochs).reshape(52, -1), axis=0)) == 52


def test_what_is_held_out_is_the_middle_in_the_order_of_the_files(folder):
    data = load_photo_sequence(folder, "held", size=SIZE, batch=20)
    x, y = data[0]
    paths, labels = list_photos(Path(folder), "held")
    np.testing.assert_array_equal(y, labels)
    for found, path in zip(x, paths, strict=True):
        with Image.open(path) as picture:
            side = min(picture.size)
            left, top = (picture.width - side) // 2, (picture.height - side) // 2
            middle = np.asarray(picture)[top : top + side, left : left + side] / 255
        # a mean of means over almost equal areas
        np.testing.assert_allclose(found.mean((0, 1)), middle.mean((0, 1)), atol=0.02)
    data.on_epoch_end()
    np.testing.assert_array_equal(data[0][0], x)


def test_boxes_and_colours_are_those_of_the_pipeline():
    random = np.random.default_rng(1)
    for _ in range(50):
        width, height = (int(side) for side in random.integers(400, 641, 2))
        draws = random.random(DRAWS, np.float32)
        top, left, tall, wide = (int(one) for one in _find_window(tf.constant((height, width)), tf.constant(draws)))
        # sides that lie at a half, and places at a whole, may be rounded to either
        assert find_box((width, height), draws) == pytest.approx((left, top, left + wide, top + tall), abs=2)
        picture = random.random((6, 5, 3), np.float32)
        wanted = change_picture(tf.constant(picture), tf.constant(draws))
        # ten operations on numbers up to 2, each time
        np.testing.assert_allclose(change_array(picture, draws), wanted, rtol=0, atol=40 * 2.0**-23)
