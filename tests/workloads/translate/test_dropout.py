"""Draws of dropout belong to the examples of a global batch: whoever computes an example draws the same."""

import numpy as np
import pytest
import tensorflow as tf

from tfperf.place.draws import Draws
from tfperf.workloads.translate.dropout import drop, sample_mask

B, T, U, COLUMNS, RATE = 12, 7, 10, 11, 0.3


def kept(first=0, rows=B, length=T, columns=COLUMNS, seed=3, step=5, layer=1, rate=RATE):
    x = tf.zeros([rows, length, U], tf.float64)
    return sample_mask(Draws(seed, tf.constant(step, tf.int64), first), x, tf.constant(columns), rate, layer).numpy()


@pytest.mark.parametrize("devices", [2, 3, 4, 6])
def test_parts_of_a_batch_draw_what_the_whole_draws(devices):
    rows = B // devices
    parts = [kept(first=k * rows, rows=rows) for k in range(devices)]
    np.testing.assert_array_equal(np.concatenate(parts), kept())


def test_shorter_examples_draw_the_beginning():
    np.testing.assert_array_equal(kept(first=3, rows=2, length=4), kept()[3:5, :4])


def test_the_stream_is_philox_of_seed_step_and_layer():
    """Without the draws of before: the whole of 12 columns, which 11 are rounded up to."""
    counter = tf.constant([0, 5 * 64 + 1], tf.uint64)
    want = tf.raw_ops.StatelessRandomUniformV2(
        shape=[B, 12, U], key=tf.constant([3], tf.uint64), counter=counter, alg=1, dtype=tf.float32
    )
    np.testing.assert_array_equal(kept(), want.numpy()[:, :T] >= np.float32(RATE))


@pytest.mark.parametrize("other", [{"seed": 2**32 - 1}, {"step": 6}, {"step": 2**40}, {"layer": 63}, {"first": 12}])
def test_other_draws_agree_by_chance_alone(other):
    first, second = kept(rows=600), kept(rows=600, **other)
    n, share = first.size, RATE**2 + (1 - RATE) ** 2
    sigma = np.sqrt(share * (1 - share) / n)
    assert abs(np.mean(first == second) - share) < 5 * sigma
    assert abs(second.mean() - (1 - RATE)) < 5 * np.sqrt(RATE * (1 - RATE) / n)


def test_what_is_kept_is_scaled_and_the_mean_stays():
    x = tf.constant([[[2.0, 3.0]]])
    np.testing.assert_allclose(drop(x, tf.constant([[[True, False]]]), 0.2), [[[2.5, 0.0]]], rtol=1e-6)
