"""What a card of a translation may say."""

from tfperf.runcard.kinds import CardKind
from tfperf.runcard.schema import Grammar
from tfperf.runcard.types import MAX_STEP
from tfperf.workloads.translate.card import TranslationCard

NAME = "translate"
KIND = CardKind(
    Grammar(TranslationCard),
    {
        ("data", role, key): "an HDF5 file" if key == "hdf5" else "a text file"
        for role in ("training", "validation", "test")
        for key in ("source", "target", "table", "hdf5")
    },
    {("train", "steps"): MAX_STEP},
    performance_keys=("engine.xla", "engine.lstm", "train.steps_per_call"),
)
