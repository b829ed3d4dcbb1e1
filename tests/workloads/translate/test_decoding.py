"""Beam search against all translations that there are, and greedy search against a loop."""

from itertools import product

import numpy as np
import pytest
import tensorflow as tf

from tfperf.workloads.translate.decoding import repeat_state, search_beam, search_greedy
from tfperf.workloads.translate.vocabulary import END, PAD, START

V, T, B = 5, 4, 3  # ids, ids of a translation at most, sentences
ALL = (V - 1) ** T + V ** (T - 1)  # more than there are translations of any length


def chains(seed, sharpness=1.0, batch=B):
    """Log probabilities (B, V, V, V) of an id after the two before it: a model of its own for each sentence."""
    logits = sharpness * np.random.default_rng(seed).standard_normal((batch, V, V, V))
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def searcher(model, beam, alpha=0.6, length=T, compiled=True):
    """From numbers of sentences to ids and scores; the state is such a number and the id before the last."""
    table = tf.constant(model)

    def step(ids, state):
        log_probs = tf.gather_nd(table, tf.stack([state["sentence"], state["before"], ids], axis=1))
        return log_probs, {"sentence": state["sentence"], "before": ids}

    def search(sentences):
        batch = tf.shape(sentences)[0]
        state = repeat_state({"sentence": sentences, "before": tf.zeros_like(sentences)}, beam)
        return search_beam(step, state, batch, beam, length, alpha, tf.float64)

    if compiled:
        search = tf.function(search, input_signature=[tf.TensorSpec([None], tf.int32)])
    return lambda sentences: [x.numpy() for x in search(tf.constant(sentences, tf.int32))]


def searched(model, *args, **kwargs):
    return searcher(model, *args, **kwargs)(range(len(model)))


def log_probability(chain, ids):
    """Of ids up to END, after START."""
    before, last, total = PAD, START, 0.0
    for one in ids:
        total += chain[before, last, one]
        before, last = last, one
        if one == END:
            break
    return total


def length_of(ids):
    return ids.index(END) + 1 if END in ids else len(ids)


def score(chain, ids, alpha):
    return log_probability(chain, ids) / ((5 + length_of(list(ids))) / 6) ** alpha


def best_of_all(chain, alpha):
    """All sequences with one END, at their end."""
    others = [one for one in range(V) if one != END]
    every = [(*ids, END) for n in range(T) for ids in product(others, repeat=n)]
    return max(every, key=lambda ids: score(chain, ids, alpha))


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 3.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_wide_beam_finds_the_best_of_all(seed, alpha):
    model = chains(seed)
    ids, scores = searched(model, ALL, alpha)
    for chain, got, value in zip(model, ids, scores, strict=True):
        want = best_of_all(chain, alpha)
        assert got.tolist() == [*want, *[PAD] * (T - len(want))]
        assert value == pytest.approx(score(chain, want, alpha), rel=1e-12)


def test_long_translations_gain_by_alpha():
    lengths = [[length_of(ids.tolist()) for ids in searched(chains(1, batch=20), 50, alpha)[0]] for alpha in (0, 1, 3)]
    assert sum(lengths[0]) < sum(lengths[1]) < sum(lengths[2])


def one_by_one(chain, length):
    before, last, ids = PAD, START, []
    while len(ids) < length and last != END:
        before, last = last, int(np.argmax(chain[before, last]))
        ids.append(last)
    return [*ids, *[PAD] * (length - len(ids))]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 3.0])
def test_one_hypothesis_takes_the_likeliest_each_time(alpha):
    model = chains(3, sharpness=2.0, batch=30)
    ids, scores = searched(model, 1, alpha, length=12)
    want = [one_by_one(chain, 12) for chain in model]
    assert ids.tolist() == want
    assert {length_of(row) for row in want} > {1, 2, 3} and any(END not in row for row in want)
    assert np.allclose(scores, [score(c, row, alpha) for c, row in zip(model, want, strict=True)], rtol=1e-12)


def test_greedy_is_one_hypothesis_with_log_probabilities():
    chain = chains(4)[0]
    table = tf.constant(chain, tf.float32)

    def step(ids, before):
        return tf.gather_nd(table, tf.stack([before, ids], axis=1)), ids

    ids, scores = search_greedy(step, tf.zeros([1], tf.int32), 1, 9)
    assert ids.numpy()[0].tolist() == one_by_one(chain, 9) and ids.dtype == tf.int32
    assert scores.dtype == tf.float32
    assert scores.numpy()[0] == pytest.approx(log_probability(chain, one_by_one(chain, 9)), rel=1e-5)


@pytest.mark.parametrize("beam", [2, 3, 5])
def test_a_sentence_is_translated_alike_in_any_company(beam):
    model = chains(5, sharpness=2.0, batch=12)
    search = searcher(model, beam, length=10)
    ids, scores = search(range(12))
    for k in range(12):
        alone = search([k])
        assert alone[0][0].tolist() == ids[k].tolist() and alone[1][0] == scores[k]
        # what comes before END is worth its score
        assert scores[k] == pytest.approx(score(model[k], ids[k].tolist(), 0.6), rel=1e-12)


def test_more_hypotheses_find_what_one_misses():
    chain = np.full((V, V, V), np.log(1e-6))
    chain[:, START, [3, 4]] = np.log([0.6, 0.4])
    chain[:, 3, [END, 0, 1]] = np.log(1 / 3)
    chain[:, 4, END] = np.log(0.99)
    assert searched(chain[None], 1, 0.0)[0][0].tolist()[0] == 3
    ids, scores = searched(chain[None], 2, 0.0)
    assert ids[0].tolist() == [4, END, PAD, PAD]
    assert scores[0] == pytest.approx(np.log(0.4 * 0.99))


def test_without_end_the_likeliest_of_full_length_is_returned():
    chain = np.full((V, V, V), -np.inf)
    chain[..., [3, 4]] = np.log([0.4, 0.6])
    ids, scores = searched(chain[None], 3, 1.0)
    assert ids[0].tolist() == [4] * T
    assert scores[0] == pytest.approx(T * np.log(0.6) / ((5 + T) / 6))


def test_the_search_is_over_when_nothing_better_can_come():
    log_probs, calls = tf.math.log([[0.01, 0.01, 0.96, 0.01, 0.01]] * 3), []

    def step(ids, state):
        calls.append(ids)
        return log_probs, state

    ids, _ = search_beam(step, tf.zeros([3]), 1, 3, 50)
    assert ids.numpy()[0, :2].tolist() == [END, PAD] and len(calls) == 1


def test_eager_and_compiled_agree():
    model = chains(6)
    for eager, compiled in zip(searched(model, 3, compiled=False), searched(model, 3), strict=True):
        assert np.array_equal(eager, compiled)
