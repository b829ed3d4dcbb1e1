"""What a card of a Keras model may say."""

from tfperf.runcard.kinds import CardKind
from tfperf.runcard.schema import Grammar
from tfperf.workloads.keras.card import KerasCard

NAME = "keras"
KIND = CardKind(
    Grammar(KerasCard),
    files={("model", "file"): "a .keras file", ("data", "file"): "an .npz or HDF5 file"},
    required={("train", "epochs"): 1},
    code=(("model", "build"), ("data", "build")),
    performance_keys=("engine.xla", "train.steps_per_call"),
)
