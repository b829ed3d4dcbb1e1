"""How many samples a card's work has, as a memory trial tells it."""

import pytest

from tfperf.workloads.cards import load_checked_card
from tfperf.workloads.keras.card import KerasCard
from tfperf.workloads.keras.memory import KerasMemoryTrial
from tfperf.workloads.trial_work import describe_work

NETS = """import numpy as np
import tensorflow as tf


def build(): ...


def load():
    return np.ones((40, 3), "float32"), np.ones((40, 1), "float32")


def load_batches():
    return tf.data.Dataset.from_tensors((np.ones((4, 3), "float32"), np.ones((4, 1), "float32"))).repeat(5)


def load_some():
    return load_batches().filter(lambda inputs, targets: True)


def load_padded(lengths, shape):
    def make():
        for length in lengths:
            yield np.ones((4, length), "int32"), np.ones((4, 1), "float32")

    return tf.data.Dataset.from_generator(
        make, output_signature=(tf.TensorSpec(shape, tf.int32), tf.TensorSpec((4, 1), tf.float32)))
"""


@pytest.mark.parametrize(
    ("data", "train", "mode", "work"),
    [
        ("load', validation: 0.25", "epochs: 3", "train", (30, 10, 3, None)),
        ("load', validation: 0.25", "epochs: 3", "predict", (30, 0, 3, None)),
        ("load_batches'", "steps: 7", "train", (20, 0, None, 7)),
        ("load_batches'", "epochs: 2, steps_per_epoch: 3", "train", (12, 0, 2, None)),
        ("load_some'", "epochs: 2", "train", (None, 0, 2, None)),
    ],
)
def test_samples_of_an_epoch_are_those_of_the_data(tmp_path, data, train, mode, work):
    (tmp_path / "tfperf_made_up_work.py").write_text(NETS)
    path = tmp_path / "card.yaml"
    path.write_text(
        "workload: keras\nmodel: {build: 'tfperf_made_up_work.py:build'}\n"
        f"data: {{build: 'tfperf_made_up_work.py:{data}}}\ntrain: {{{train}}}\n"
    )
    card = load_checked_card(path, ())
    assert isinstance(card, KerasCard)
    trial = KerasMemoryTrial(card, mode)
    trial.read_data()
    assert describe_work(trial) == dict(zip(("samples", "held_samples", "epochs", "steps"), work, strict=True))


def test_a_trial_that_does_not_tell_has_no_work():
    assert describe_work(object()) is None


@pytest.mark.parametrize("shape", ["[4, null]", "null"])  # of a batch, as the stream tells it
@pytest.mark.parametrize(
    ("lengths", "wanted"),
    [([9, 3, 9, 5, 9], [5, 9, 9]), ([3, 3, 3, 20], [3, 3, 20]), ([8, 4, 30, 8, 2], [4, 8, 30]), ([7, 7], [])],
)
def test_half_the_typical_the_typical_and_the_longest_length_are_told(tmp_path, lengths, wanted, shape):
    (tmp_path / "tfperf_made_up_padded.py").write_text(NETS)
    path = tmp_path / "card.yaml"
    path.write_text(
        "workload: keras\nmodel: {build: 'tfperf_made_up_padded.py:build'}\ntrain: {epochs: 1}\n"
        f"data: {{build: 'tfperf_made_up_padded.py:load_padded', arguments: {{lengths: {lengths}, shape: {shape}}}}}\n"
    )
    card = load_checked_card(path, ())
    assert isinstance(card, KerasCard)
    trial = KerasMemoryTrial(card, "train")
    trial.read_data()
    assert [*trial.list_lengths()] == wanted
