"""A program of its own, since TensorFlow fixes its devices once: 20 steps with each of some placements.

python -m tests.place.child FOLDER: overrides by name of the placement on stdin; weights and proof of each to
FOLDER. The proof also tells what is wrong by the rules of the placement before. A name that begins with `update` takes
one step, in which the first device alone has sentences: gradients then are the same on any number of devices.
"""

import json
import sys
from functools import cache
from pathlib import Path

import numpy as np
import tensorflow as tf

from tests.runcard.cards import write
from tfperf.place import strategies
from tfperf.place.devices import make_devices
from tfperf.place.engine import take_steps
from tfperf.place.graphs import record_step
from tfperf.place.proof import prove, prove_engine
from tfperf.workloads.translate.cards import load_card
from tfperf.workloads.translate.feeding import build_training_dataset
from tfperf.workloads.translate.texts import read_sentences
from tfperf.workloads.translate.trainable import build_engine
from tfperf.workloads.translate.vocabulary import END

CARD = """\
workload: translate
data: {fixed_length: 9, vocabulary: 300}
model: {units: 12, layers: 1}
train: {steps: 100, optimizer: {learning_rate: 0.01}}
"""
ROWS, STEPS, BATCH, LENGTH = 300, 20, 60, 9  # so many rows can be divided among 1 to 6 devices
ALONE = 10  # rows of a device that has them alone


def sentences():
    """Global batches (STEPS, BATCH, LENGTH) and (STEPS, BATCH, LENGTH + 1); sentences and their paddings differ."""
    random = np.random.default_rng(5)
    source = random.integers(4, ROWS, (STEPS, BATCH, LENGTH)).astype(np.int32)
    target = random.integers(4, ROWS, (STEPS, BATCH, LENGTH + 1)).astype(np.int32)
    for row, end in enumerate(random.integers(3, LENGTH, BATCH)):
        source[:, row, end:] = 0
        target[:, row, LENGTH - end // 2 :] = 0
    return source, target


def batches(devices):
    """The same global batches whatever the number of devices."""

    def divided(s, t):
        local_batches = zip(tf.split(s, devices), tf.split(t, devices), strict=True)
        return tuple(local_batches), tf.cast(tf.math.count_nonzero(t[:, 1:]), tf.float32)

    return tf.data.Dataset.from_tensor_slices(sentences()).map(divided).repeat()


def make_first_batches(devices):
    """Batches of the first device alone; the others have filling, which has no labels."""

    def beside_filling(s, t):
        filling = tf.one_hot(tf.zeros(ALONE, tf.int32), LENGTH, END, 0), tf.zeros_like(t)
        return ((s, t), *[filling] * (devices - 1)), tf.cast(tf.math.count_nonzero(t[:, 1:]), tf.float32)

    few = tuple(side[:, :ALONE] for side in sentences())
    return tf.data.Dataset.from_tensor_slices(few).map(beside_filling).repeat()


def make_feed(card, devices, alone):
    """Rows of the tables, and a function that makes batches: those of a card that names text, else made-up ones."""
    if card.data.training is None:
        return ROWS, lambda: (make_first_batches if alone else batches)(devices)
    found = read_sentences(card)
    return found.rows, lambda: build_training_dataset(card, found.encoded.training, devices)


def weights(state):
    """Names of the model's own, without the optimizer's."""
    return [name for name in state if "/" in name and not name.startswith("optimizer/")]


def run(overrides, folder, name, others=()):
    """Weights after all steps, and the proof of a few more, also against other rules; its own rules."""
    card = load_card(write(folder, CARD, f"{name}.yaml"), overrides)
    devices = make_devices(card.placement)
    alone = name.startswith("update")
    rows, every = make_feed(card, len(devices), alone)
    engine = build_engine(card, rows, devices)
    begin = engine.snapshot()
    iterator = iter(every())
    losses = take_steps(engine, iterator, 1 if alone else STEPS)
    state = engine.snapshot()
    moved = min(np.abs(state[key] - begin[key]).max() for key in weights(state))
    np.savez(folder / f"{name}.npz", **state, losses=losses, moved=moved)  # type: ignore[arg-type]
    ran = record_step(lambda: take_steps(engine, iterator, 1))
    proof = prove_engine(engine, ran)
    found = {
        "faults": proof.faults, "kernels": proof.kernels, "devices": proof.devices,
        "by_others": prove(ran.operations, others).faults, "traces": engine.call.experimental_get_tracing_count(),
    }  # fmt: skip
    (folder / f"{name}.json").write_text(json.dumps(found))
    return engine.list_rules()


def main():
    """Carry out what stdin asks for."""
    folder = Path(sys.argv[1])
    rules = ()
    strategies.build_strategy = cache(strategies.build_strategy)  # a cluster is joined once
    for name, overrides in json.load(sys.stdin).items():
        rules = run(overrides, folder, name, rules)


if __name__ == "__main__":
    main()
