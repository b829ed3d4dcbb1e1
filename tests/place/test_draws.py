"""Draws belong to the examples of a global batch: whoever computes an example draws the same."""

import numpy as np
import pytest
import tensorflow as tf

from tfperf.place.draws import Draws

B, EACH = 12, (3, 5)  # fifteen draws, which fill four counts


def drawn(first=0, rows=B, seed=3, step=5, stream=1):
    return Draws(seed, tf.constant(step, tf.int64), first).sample_uniform(rows, EACH, stream).numpy()


@pytest.mark.parametrize("devices", [2, 3, 4, 6])
def test_parts_of_a_batch_draw_what_the_whole_draws(devices):
    rows = B // devices
    np.testing.assert_array_equal(np.concatenate([drawn(k * rows, rows) for k in range(devices)]), drawn())


def test_an_example_draws_at_its_own_place_of_the_stream():
    counter = tf.constant([7 * 4, 5 * 64 + 1], tf.uint64)
    key = tf.constant([3], tf.uint64)
    want = tf.raw_ops.StatelessRandomUniformV2(shape=[16], key=key, counter=counter, alg=1, dtype=tf.float32)
    np.testing.assert_array_equal(drawn()[7].ravel(), want.numpy()[:15])


@pytest.mark.parametrize("other", [{"seed": 4}, {"step": 6}, {"stream": 2}, {"first": B}])
def test_no_two_examples_share_a_draw(other):
    assert len(np.unique(np.concatenate([drawn(), drawn(**other)]))) > 0.99 * 2 * B * 15
