"""The conditional random field beside all sequences of labels, one by one, in float64."""

from itertools import pairwise, product

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfperf.zoo.crf import ConditionalRandomField

LABELS = 3
LENGTHS = (4, 1, 3, 2) * 4


def make_layer(dtype="float64", scale=1.0):
    """A layer with weights by chance, emissions (B, L, K), labels and mask (B, L)."""
    draw = np.random.default_rng(1)
    layer = ConditionalRandomField(dtype=dtype)
    layer.build((None, None, LABELS))
    layer.set_weights([scale * draw.normal(size=weight.shape) for weight in layer.weights])
    size = (len(LENGTHS), max(LENGTHS))
    mask = np.arange(size[1]) < np.array(LENGTHS)[:, None]
    return layer, scale * draw.normal(size=(*size, LABELS)), draw.integers(0, LABELS, size), mask


def list_paths(emissions, layer):
    """Every sequence of labels of a sequence of emissions (l, K), and its score."""
    transitions, starts, ends = (np.asarray(weight, np.float64) for weight in layer.weights)
    for path in product(range(LABELS), repeat=len(emissions)):
        score = starts[path[0]] + ends[path[-1]] + sum(emissions[t, label] for t, label in enumerate(path))
        yield path, score + sum(transitions[a, b] for a, b in pairwise(path))


def sum_paths(emissions, layer):
    scores = np.array([score for _, score in list_paths(emissions, layer)])
    return scores.max() + np.log(np.exp(scores - scores.max()).sum())


def compute_likelihood(emissions, labels, layer):
    """Of each sequence, in its own length."""
    found = []
    for row, wanted, length in zip(emissions, labels, LENGTHS, strict=True):
        scores = dict(list_paths(row[:length], layer))
        found.append(scores[tuple(wanted[:length])] - sum_paths(row[:length], layer))
    return np.array(found)


@pytest.mark.parametrize("compiled", [None, False, True])
def test_likelihood_is_that_among_all_sequences(compiled):
    layer, emissions, labels, mask = make_layer()
    run = layer.compute_log_likelihood
    if compiled is not None:
        run = tf.function(run, jit_compile=compiled)
    found = run(tf.constant(emissions), labels, mask)
    np.testing.assert_allclose(found, compute_likelihood(emissions, labels, layer), rtol=1e-12)


def test_probabilities_of_all_sequences_add_up_to_one():
    layer, emissions, _, mask = make_layer()
    paths = np.array([*product(range(LABELS), repeat=LENGTHS[0])])
    copies = np.repeat(emissions[:1], len(paths), 0), paths, np.repeat(mask[:1], len(paths), 0)
    assert np.exp(layer.compute_log_likelihood(*copies)).sum() == pytest.approx(1, rel=1e-12)


def count_features(path, size):
    """How often a path has each emission (L, K), each move (K, K), each first and each last label (K)."""
    counts = np.zeros((size, LABELS)), np.zeros((LABELS, LABELS)), np.zeros(LABELS), np.zeros(LABELS)
    for place, label in enumerate(path):
        counts[0][place, label] += 1
    for before, after in pairwise(path):
        counts[1][before, after] += 1
    counts[2][path[0]] += 1
    counts[3][path[-1]] += 1
    return counts


def differentiate_likelihood(emissions, labels, layer):
    """Gradients of the sum: what the labels count, less what all sequences count on average."""
    found = np.zeros_like(emissions), *[np.zeros(weight.shape) for weight in layer.weights]
    for number, length in enumerate(LENGTHS):
        row = emissions[number, :length]
        total = sum_paths(row, layer)
        paths = [(path, -np.exp(score - total)) for path, score in list_paths(row, layer)]
        for path, share in [*paths, (tuple(labels[number, :length]), 1)]:
            first, *others = count_features(path, emissions.shape[1])
            found[0][number] += share * first
            for gradient, count in zip(found[1:], others, strict=True):
                gradient += share * count
    return found


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_are_counts_less_those_of_all_sequences(compiled):
    layer, emissions, labels, mask = make_layer()

    @tf.function(jit_compile=compiled)
    def differentiate(values):
        with tf.GradientTape() as tape:
            tape.watch(values)
            total = tf.reduce_sum(layer.compute_log_likelihood(values, labels, mask))
        return tape.gradient(total, [values, *[weight.value for weight in layer.weights]])

    found = differentiate(tf.constant(emissions))
    for one, wanted in zip(found, differentiate_likelihood(emissions, labels, layer), strict=True):
        np.testing.assert_allclose(one, wanted, rtol=1e-11, atol=1e-12)
    assert np.all(found[0].numpy()[~mask] == 0)


@pytest.mark.parametrize("compiled", [None, False, True])
def test_decoded_labels_are_the_likeliest(compiled):
    layer, emissions, _, mask = make_layer()
    run = layer.decode_labels if compiled is None else tf.function(layer.decode_labels, jit_compile=compiled)
    found = np.asarray(run(tf.constant(emissions), mask))
    for row, path, length in zip(emissions, found, LENGTHS, strict=True):
        best, _ = max(list_paths(row[:length], layer), key=lambda one: one[1])
        assert tuple(path[:length]) == best and not path[length:].any()
    greedy = emissions.argmax(2)
    assert np.any((found != greedy) & mask), "transitions matter"


def test_one_place_alone():
    layer, emissions, labels, mask = make_layer()
    one = emissions[:, :1], labels[:, :1], mask[:, :1]
    scores = np.asarray(emissions[:, 0] + layer.starts + layer.ends)
    wanted = [row[label] - np.log(np.exp(row).sum()) for row, label in zip(scores, labels[:, 0], strict=True)]
    np.testing.assert_allclose(layer.compute_log_likelihood(*one), wanted, rtol=1e-12)
    np.testing.assert_array_equal(layer.decode_labels(one[0], one[2])[:, 0], np.argmax(scores, 1))


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_float32_is_stable_where_exponentials_overflow(scale):
    layer, emissions, labels, mask = make_layer("float32", scale)
    found = layer.compute_log_likelihood(emissions, labels, mask)
    truth = compute_likelihood(emissions.astype(np.float32), labels, layer)
    # at most 16 sums of numbers of up to 10 `scale`
    np.testing.assert_allclose(found, truth, atol=16 * 10 * scale * np.finfo(np.float32).eps)


def test_what_stands_in_the_padding_changes_nothing():
    layer, emissions, labels, mask = make_layer("float32")
    other = np.where(mask[:, :, None], emissions, 1e6)
    changed = np.where(mask, labels, LABELS - 1)
    found = layer.compute_log_likelihood(emissions, labels, mask)
    np.testing.assert_array_equal(layer.compute_log_likelihood(other, changed, mask), found)
    np.testing.assert_array_equal(layer.decode_labels(other, mask), layer.decode_labels(emissions, mask))


def test_lengths_may_be_unknown_while_tracing():
    layer, emissions, labels, mask = make_layer("float32")
    scores, numbers, flags = (tf.TensorSpec([None, None, *last], kind) for last, kind in
                              (([LABELS], tf.float32), ([], tf.int32), ([], tf.bool)))  # fmt: skip
    run = tf.function(layer.compute_log_likelihood, input_signature=[scores, numbers, flags])
    decode = tf.function(layer.decode_labels, input_signature=[scores, flags])
    for length in (4, 1, 2):
        part = emissions[:, :length].astype(np.float32), labels[:, :length].astype(np.int32), mask[:, :length]
        np.testing.assert_allclose(run(*part), layer.compute_log_likelihood(*part), rtol=1e-6)
        np.testing.assert_array_equal(decode(part[0], part[2]), layer.decode_labels(part[0], part[2]))


def test_half_precision_is_added_up_in_that_of_the_weights():
    layer, emissions, labels, mask = make_layer("mixed_bfloat16")
    half = tf.cast(emissions, "bfloat16")
    found = layer.compute_log_likelihood(half, labels, mask)
    assert found.dtype == tf.float32
    np.testing.assert_allclose(found, compute_likelihood(tf.cast(half, "float64").numpy(), labels, layer), rtol=1e-5)


def test_it_is_read_from_its_configuration():
    layer, *_ = make_layer()
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert isinstance(again, ConditionalRandomField) and again.get_config() == layer.get_config()
