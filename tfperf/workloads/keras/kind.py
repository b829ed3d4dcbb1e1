"""What a card of a Keras model may say."""

from tfperf.runcard.keys import EACH_ENTRY
from tfperf.runcard.kinds import CardKind
from tfperf.runcard.schema import Grammar
from tfperf.workloads.keras.card import KerasCard

NAME = "keras"
SAMPLES = "an .npz, HDF5, CSV or Parquet file"
KIND = CardKind(
    Grammar(KerasCard),
    files={
        ("model", "file"): "a .keras file", ("model", "custom_objects"): "a Python file", ("data", "file"): SAMPLES,
        ("data", "validation", "file"): SAMPLES,
    },
    folders={
        ("data", "folder"): (), ("data", "validation", "folder"): (), ("data", "store"): (),
        ("data", "validation", "store"): (),
    },
    code=(
        ("model", "build"), ("data", "build"), ("data", "validation", "build"),
        ("train", "callbacks", EACH_ENTRY, "build"), ("ensemble", "data", "build"),
    ),
    uncompared_keys=("replicas",),
    performance_keys=("engine.xla", "engine.form", "train.steps_per_call"),
)  # fmt: skip
