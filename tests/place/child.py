"""A program of its own, since TensorFlow fixes its devices once: 20 steps with each of some placements.

python -m tests.place.child FOLDER: overrides by name of the placement on stdin; weights and proof of each to
FOLDER. The proof also tells what is wrong by the rules of the placement before.
"""

import json
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

from tests.runcard.cards import write
from tfperf.data.feeding import epochs
from tfperf.place.devices import make_devices
from tfperf.place.engine import make_engine, take
from tfperf.place.proof import prove, prove_engine, run_operations
from tfperf.runcard.loader import load_any
from tfperf.runs.texts import read_sentences

CARD = """\
workload: translate
data: {fixed_length: 9, vocabulary: 300}
model: {units: 12, layers: 1}
train: {steps: 100, optimizer: {learning_rate: 0.01}}
"""
ROWS, STEPS, BATCH, LENGTH = 300, 20, 60, 9  # so many rows can be divided among 1 to 6 devices


def batches(devices):
    """The same global batches whatever the number of devices; sentences and their paddings differ."""
    random = np.random.default_rng(5)
    source = random.integers(4, ROWS, (STEPS, BATCH, LENGTH)).astype(np.int32)
    target = random.integers(4, ROWS, (STEPS, BATCH, LENGTH + 1)).astype(np.int32)
    for row, end in enumerate(random.integers(3, LENGTH, BATCH)):
        source[:, row, end:] = 0
        target[:, row, LENGTH - end // 2 :] = 0

    def divided(s, t):
        parts = zip(tf.split(s, devices), tf.split(t, devices), strict=True)
        return tuple(parts), tf.cast(tf.math.count_nonzero(t[:, 1:]), tf.float32)

    return tf.data.Dataset.from_tensor_slices((source, target)).map(divided).repeat()


def fed(card, devices):
    """Rows of the tables, and a function that makes batches: those of a card that names text, else `batches`."""
    if card.data.training is None:
        return ROWS, lambda: batches(devices)
    sentences = read_sentences(card)
    return sentences.rows, lambda: epochs(card, sentences.encoded.training, devices)


def weights(state):
    """Names of the model's own, without the optimizer's."""
    return [name for name in state if "/" in name and not name.startswith("optimizer/")]


def run(overrides, folder, name, others=()):
    """Weights after STEPS steps, and the proof of a few more, also against other rules; its own rules."""
    card = load_any(write(folder, CARD, f"{name}.yaml"), overrides)
    devices = make_devices(card.placement)
    rows, every = fed(card, len(devices))
    engine = make_engine(card, rows, devices)
    begin = engine.state()
    iterator = iter(every())
    losses = take(engine, iterator, STEPS)
    state = engine.state()
    moved = min(np.abs(state[key] - begin[key]).max() for key in weights(state))
    np.savez(folder / f"{name}.npz", **state, losses=losses, moved=moved)
    operations = run_operations(lambda: take(engine, iterator, 2))
    proof = prove_engine(engine, operations)
    found = {
        "faults": proof.faults, "kernels": proof.kernels, "devices": proof.devices,
        "by_others": prove(operations, others).faults, "traces": engine.call.experimental_get_tracing_count(),
    }  # fmt: skip
    (folder / f"{name}.json").write_text(json.dumps(found))
    return engine.rules()


def main():
    """Carry out what stdin asks for."""
    folder = Path(sys.argv[1])
    rules = ()
    for name, overrides in json.load(sys.stdin).items():
        rules = run(overrides, folder, name, rules)


if __name__ == "__main__":
    main()
