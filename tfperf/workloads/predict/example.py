"""The example card of a prediction."""

from pathlib import Path
from typing import Any

from tfperf.runcard.dump import to_tree
from tfperf.runcard.example import format_example
from tfperf.workloads.predict.card import PredictCard, PredictModel, RecordPreparation, RecordSource
from tfperf.workloads.predict.kind import KIND

ENDS = {".h5": "hdf5", ".hdf5": "hdf5", ".txt": "lines", ".npy": "npy"}  # of files; all others are Parquet
OFF = ("preprocess",)  # what a model may need; shown as a comment
OF_TRAINING = ("profile", "sweep", "memory")  # keys of all cards that do nothing here
HEAD = """\
# A Keras model over records of files: one row for each of them, in one HDF5 file. Paths are relative to this file. Put
# in the names of your own: model.file, the files of the source, and the columns that the model takes, by the names of
# its inputs. A model that takes texts as numbers needs preprocess, which is a comment here.
# Only model and source must be given: every other key may be left out, and then has the value shown here.
# `tfperf check` says what is wrong with a card.
"""


def make_source(form: str, files: tuple[str, ...]) -> RecordSource:
    """Files of a format."""
    tree: dict[str, Any] = {form: files}
    return RecordSource(**tree)


def format_example_card(data: Path | None) -> str:
    """A card with a comment for each key; data: a file of records as it is written, None for one yet to be named."""
    form = "parquet" if data is None else ENDS.get(data.suffix, "parquet")
    files = ("records.parquet" if data is None else str(data),)
    card = PredictCard(
        workload="predict", title="An example", model=PredictModel(file=Path("model.keras")),
        preprocess=RecordPreparation(tokenizer=Path("tokenizer.json")), source=make_source(form, files),
    )  # fmt: skip
    tree = {key: value for key, value in to_tree(card).items() if key not in OF_TRAINING}
    return HEAD + format_example(KIND.grammar, tree, OFF)
