"""What a card of a prediction may say."""

from tfperf.runcard.keys import EACH_ENTRY
from tfperf.runcard.kinds import CardKind
from tfperf.runcard.schema import Grammar
from tfperf.workloads.predict.card import FORMATS, PredictCard

NAME = "predict"
KIND = CardKind(
    Grammar(PredictCard),
    files={
        ("model", "file"): "a .keras file", ("model", "weights"): "a .weights.h5 file",
        ("model", "custom_objects"): "a Python file", ("preprocess", "tokenizer"): "a tokenizer.json file",
    },
    code=(("model", "build"), ("preprocess", "build")),
    globs=tuple(("source", form, EACH_ENTRY) for form in FORMATS),
    data=("source",),
)  # fmt: skip
