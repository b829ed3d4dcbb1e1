"""A program of its own, since TensorFlow fixes its devices once: trainables placed, trained and proved.

python -m tests.place.trained FOLDER: by name on stdin what `carry_out` takes, most devices first; all that training
changed to FOLDER, faults to faults.json there.
"""

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.place.cheating.statistics import STATISTICS
from tests.place.cheats import CHEATS
from tests.place.plain import PLAIN
from tests.place.trainables import STEPS, TASKS
from tfperf.place import strategies
from tfperf.place.devices import make_devices
from tfperf.place.engine import build_engine, take_with_metrics
from tfperf.place.graphs import record_step
from tfperf.place.method import Method
from tfperf.place.proof import prove_engine
from tfperf.runcard.model_optimizer import ModelOptimizer
from tfperf.runcard.placement import Placement

OPTIMIZERS: dict[str, dict[str, Any]] = {
    "network": {"name": "Adam", "learning_rate": 0.01, "global_clipnorm": 0.5},
    "recommender": {"name": "Adagrad", "learning_rate": 0.1},
    "uncommon": {"name": "AdamW", "learning_rate": 0.01, "weight_decay": 0.1},
}


def dataset(arrays, devices):
    """Global batches, divided among devices."""

    def divided(*whole):
        local_batches = zip(*(tf.split(one, devices) for one in whole), strict=True)
        return tuple(local_batches), tf.constant(whole[0].shape[0], tf.float32)

    return tf.data.Dataset.from_tensor_slices(arrays).map(divided).repeat()


def copies_of(engine):
    """How many of each variable an optimizer sees."""
    return [len(getattr(variable, "copies", "1")) for variable in engine.variables]  # of strategies names


def keep(file, losses, metrics, values, slots):
    """All that training changed."""
    arrays = {f"value_{i}": value for i, value in enumerate(values)} | {f"slot_{i}": one for i, one in enumerate(slots)}
    np.savez(file, losses=losses, **arrays, **{f"metric_{name}": one for name, one in metrics.items()})


def carry_out(file, model, placement, groups=1, precision="float64", prove=False, cheats=(), xla=False, dense=False):
    """Ten steps of a model by a placement; the faults of one more."""
    task, placement = TASKS[model], Placement(**placement)
    devices = make_devices(placement)
    method = Method(
        placement=placement, optimizer=ModelOptimizer(**OPTIMIZERS[model]), precision=precision, xla=xla,
        embedding_gradients="dense" if dense else "sparse",
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        for one in cheats:
            (STATISTICS[one] if one in STATISTICS else CHEATS[one].replace)(patch)
        engine = build_engine(lambda: task.build(precision, groups), method, devices)
        iterator = iter(dataset(task.batches(precision), len(devices)))
        losses, metrics = take_with_metrics(engine, iterator, STEPS)
        state = engine.snapshot()
        values = [value for name, value in state.items() if not name.startswith("optimizer/")]
        first, rate, *slots = (value for name, value in state.items() if name.startswith("optimizer/"))
        keep(file, losses, metrics, values, [first, rate, *one_of_each(slots, copies_of(engine))])
        check_restore(engine, state)
        return prove_engine(engine, record_step(lambda: take_with_metrics(engine, iterator, 1))).faults if prove else ()


def check_restore(engine, state):
    """What was kept is taken up: all is as it was."""
    engine.restore({name: np.zeros_like(value) for name, value in state.items()})
    engine.restore(state)
    assert all(np.array_equal(value, state[name]) for name, value in engine.snapshot().items())


def one_of_each(slots, copies):
    """Slots of the first copy of each variable; those of the others are the same, bit for bit."""
    each, found, at = len(slots) // sum(copies), [], 0
    for count in copies:
        mine = [slots[at + k * each : at + (k + 1) * each] for k in range(count)]
        assert all(np.array_equal(a, b) for other in mine for a, b in zip(mine[0], other, strict=True))
        found += mine[0]
        at += count * each
    return found


def train_plainly(file, model, groups):
    """The slow truth."""
    settings = dict(OPTIMIZERS[model])
    optimizer = getattr(keras.optimizers, settings.pop("name"))(**settings)
    losses, metrics, values, optimizer = PLAIN[model](optimizer, groups)
    keep(file, losses, metrics, values.values(), [v.numpy() for v in optimizer.variables])


def main():
    """Carry out what stdin asks for."""
    folder, found = Path(sys.argv[1]), {}
    strategies.build_strategy = cache(strategies.build_strategy)
    for name, asked in json.load(sys.stdin).items():
        if asked.pop("plain", False):
            train_plainly(folder / name, **asked)
        else:
            found[name] = carry_out(folder / name, **asked)
    (folder / "faults.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
