"""Translating and scoring with a model against one sentence at a time, without batches, padding or a search's state."""

import numpy as np
import pytest
import tensorflow as tf

from tests.runcard.cards import write
from tfperf.workloads.cards import load_card
from tfperf.workloads.translate.batch_translator import BatchTranslator, translate_split
from tfperf.workloads.translate.corpus import Ragged, Split
from tfperf.workloads.translate.feeding import plan_training
from tfperf.workloads.translate.piece_counts import PieceCounts
from tfperf.workloads.translate.translator import Translator
from tfperf.workloads.translate.validation import Validation
from tfperf.workloads.translate.vocabulary import END, START

CARD = """\
workload: translate
data: {fixed_length: 9, vocabulary: 300, batch: 4, bucket_width: 3}
model: {units: 6, layers: 2, dropout: 0.3}
train: {steps: 10, steps_per_call: 1}
engine: {precision: float64}
"""
ROWS, LENGTH = 12, 7


def ragged(random, n):
    lengths = random.integers(2, 8, n)  # Keras warns of attention to a single piece
    return Ragged(random.integers(4, ROWS, lengths.sum()).astype(np.int32), np.cumsum([0, *lengths]))


@pytest.fixture(scope="module")
def card(tmp_path_factory):
    return load_card(write(tmp_path_factory.mktemp("translating"), CARD))


@pytest.fixture(scope="module")
def model(card):
    return Translator(card, ROWS)


@pytest.fixture(scope="module")
def split():
    random = np.random.default_rng(3)
    return Split(ragged(random, 10), ragged(random, 10))


@pytest.fixture(scope="module")
def weights(model):
    """Others than the model's own, large enough for clear differences."""
    random = np.random.default_rng(4)
    return [random.normal(size=v.shape) for v in (*model.embeddings, *model.weights)]


def row(side, i):
    return side.flat[side.offsets[i] : side.offsets[i + 1]]


@pytest.fixture(scope="module")
def log_probs(card, weights):
    """A function of a source and a prefix: log probabilities (len(prefix), ROWS) of the piece after each of it."""
    other = Translator(card, ROWS)
    for variable, value in zip((*other.embeddings, *other.weights), weights, strict=True):
        variable.assign(value)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)] * 2)
    def compute(source, prefix):
        vectors = [tf.gather(t.value, ids)[None] for t, ids in zip(other.embeddings, (source, prefix), strict=True)]
        logits = other.core(vectors[0], tf.ones_like(source, bool)[None], vectors[1])[0]
        return tf.nn.log_softmax(logits)

    return lambda source, prefix: compute(tf.constant(source, tf.int32), tf.constant(prefix, tf.int32)).numpy()


def greedy(log_probs, source):
    """The likeliest piece after the likeliest pieces so far, until END."""
    found = [START]
    while len(found) <= LENGTH and found[-1] != END:
        found.append(int(np.argmax(log_probs(source, found)[-1])))
    return found[1:]


def test_greedy_translations_are_the_likeliest_pieces_in_the_order_of_the_split(card, model, weights, split, log_probs):
    calls = []
    found = translate_split(card, BatchTranslator(model, 1, LENGTH), weights, split, lambda: calls.append(1))
    want = [greedy(log_probs, row(split.source, i)) for i in range(len(split))]
    assert [ids[: len(one)].tolist() for ids, one in zip(found, want, strict=True)] == want
    assert any(END in one for one in want) and len({tuple(one) for one in want}) > 3  # there is something to confuse
    assert len(calls) == 3  # batches of 4


def test_a_beam_finds_translations_at_least_as_probable_for_their_lengths(card, model, weights, split, log_probs):
    def score(source, ids):
        ids = ids[: np.argmax(ids == END) + 1] if END in ids else ids
        total = log_probs(source, [START, *ids[:-1]])[np.arange(len(ids)), ids].sum()
        return total / ((5 + len(ids)) / 6) ** 0.6  # Wu et al. 2016, eq. 14

    beam, first = (translate_split(card, BatchTranslator(model, k, LENGTH), weights, split) for k in (ROWS, 1))
    pairs = [(score(row(split.source, i), beam[i]), score(row(split.source, i), first[i])) for i in range(len(split))]
    assert all(a >= b - 1e-9 for a, b in pairs) and any(a > b + 1e-3 for a, b in pairs)


def test_the_validation_loss_is_over_all_labels_of_each_pair_once(card, model, weights, split, log_probs):
    total = labels = 0
    for i in range(len(split)):
        target = [START, *row(split.target, i), END]
        each = log_probs(row(split.source, i), target[:-1])
        total -= each[np.arange(len(each)), target[1:]].sum()
        labels += len(each)
    # float64 sums of some hundred terms
    assert Validation(card, model, split).evaluate_loss(weights) == pytest.approx(total / labels, rel=1e-12)


def test_pieces_of_steps_are_those_of_their_epochs(card, split):
    plans = [plan_training(card, split, 1, epoch).pieces for epoch in range(4)]
    every = np.concatenate(plans)
    assert len(plans[0]) == 2 and len({tuple(words) for words in plans}) > 1
    counts = PieceCounts(card, split, 1)
    for before, after in ((0, 8), (1, 2), (3, 7), (0, 1), (5, 5)):
        assert counts.count_between(before, after) == every[before:after].sum()
