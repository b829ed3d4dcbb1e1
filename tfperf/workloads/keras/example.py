"""The example card of a Keras model."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from tfperf.runcard.data_sources import DataSource, ModelSource
from tfperf.runcard.dump import to_tree
from tfperf.runcard.example import format_example
from tfperf.runcard.memory import MemoryBudget
from tfperf.runcard.profile import Profile
from tfperf.runcard.sweep import Sweep
from tfperf.workloads.keras.card import EpochSchedule, KerasCard
from tfperf.workloads.keras.kind import KIND

OFF = ("profile", "sweep", "memory")  # keys that change what is done; shown as comments
HEAD = """\
# A training of a Keras model. Paths are relative to this file. The functions are your own, for example
#   model.py:  def build_model(units=64): ...; return model    # a keras.Model, compiled or not
#   data.py:   def load(): ...; return x, y                    # arrays, a tf.data.Dataset of batches, or a PyDataset
# Only model, data and train.epochs must be given: every other key may be left out, and then has the value shown here.
# `tfperf check` says what is wrong with a card, `tfperf check --build` what model and data amount to.
"""


def format_example_card(data: Path | None) -> str:
    """A card with a comment for each key; data: a file or a folder of images as it is written, None for a function."""
    found: dict[str, Any] = {"build": "data.py:load"}
    if data is not None:
        found = {"folder": str(data), "image_size": (64, 64)} if data.is_dir() else {"file": data}
    card = KerasCard(
        workload="keras", title="An example", model=ModelSource(build="model.py:build_model"),
        data=DataSource(**found, validation=0.2), train=EpochSchedule(epochs=10),
    )  # fmt: skip
    tree = to_tree(card)
    tree["profile"], tree["memory"] = asdict(Profile()), asdict(MemoryBudget())
    tree["sweep"] = asdict(Sweep(keys={"data.batch": (32, 128)}))
    return HEAD + format_example(KIND.grammar, tree, OFF)
