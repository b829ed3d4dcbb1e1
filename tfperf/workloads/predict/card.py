"""The configuration of a prediction for many records."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from tfperf.infer.dataset_names import find_odd_name
from tfperf.runcard.base_card import BaseCard
from tfperf.runcard.data_sources import CallArguments, ModelSource
from tfperf.runcard.faults import Fault, refuse
from tfperf.runcard.types import STRICT, CodeName, Name, Names

Pattern = Annotated[str, Field(min_length=1, max_length=4096)]
Patterns = Annotated[tuple[Pattern, ...], Field(min_length=1, max_length=10_000)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Device = Annotated[str, Field(pattern=r"^(cpu|gpu):(0|[1-9][0-9]{0,2})$", description="cpu:0, gpu:1, ...")]
Slowness = Annotated[float, Field(ge=1, le=1000)]
FORMATS = ("hdf5", "parquet", "lines", "npy")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class PredictModel(ModelSource):
    """The model whose outputs are wanted."""

    weights: Path | None = Field(default=None, description=".weights.h5 file that the function's model is given")

    @model_validator(mode="after")
    def _refuse_weights(self) -> Self:
        if self.weights is not None and self.build is None:
            refuse([Fault("weights", None, "must be left out without build: a .keras file has its own")])
        return self


@dataclass(frozen=True, kw_only=True, config=STRICT)
class RecordPreparation:
    """What is done to records before the model takes them: a tokenizer, or a function."""

    tokenizer: Path | None = Field(default=None, description="tokenizer.json file of the tokenizers library")
    text: Name | None = Field(default=None, description="column that is tokenized; null: the only one")
    most_tokens: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=512, description="of a text, those of its end are cut off"
    )
    tokens: Name = Field(default="tokens", description="input of the model that takes the tokens' numbers")
    mask: Name | None = Field(default=None, description="input that takes 1 for each token and 0 for padding")
    build: CodeName | None = Field(
        default=None,
        description="function that returns a function: from a dict of columns (lists or arrays of n records) to a dict "
        "of inputs, n values each, whose first axes may differ in length",
    )
    arguments: CallArguments = Field(default_factory=dict, description="its keyword arguments")

    @model_validator(mode="after")
    def _refuse_faults(self) -> Self:
        if (self.tokenizer is None) == (self.build is None):
            refuse([Fault("" if self.build is None else "build", None, "must name one of tokenizer and build")])
        if self.build is None and self.arguments:
            refuse([Fault("arguments", None, "must be left out without build")])
        return self


@dataclass(frozen=True, kw_only=True, config=STRICT)
class RecordSource:
    """Where records come from: files of one format, by globs, in natural order (part-2 before part-10)."""

    hdf5: Patterns | None = Field(default=None, description="HDF5 files, whose columns are datasets")
    parquet: Patterns | None = Field(default=None, description="Parquet files")
    lines: Patterns | None = Field(default=None, description="text files in UTF-8, a record in each line")
    npy: Patterns | None = Field(default=None, description=".npy files, a record in each row")
    columns: Names = Field(
        default=(),
        description="what preprocess or the model takes; of HDF5 paths of datasets, which may be globs: "
        "'batches/*/text' is all of them one after the other; empty: all but the id",
    )
    made_by: Annotated[str, Field(min_length=1, max_length=1000)] | None = Field(
        default=None, description="command that makes the files, for the message that they are missing"
    )
    id: Name | None = Field(
        default=None, description="column with whole numbers or texts by which records are known; null: their numbers"
    )

    @model_validator(mode="after")
    def _refuse_faults(self) -> Self:
        refuse([*self._check_keys()])
        return self

    @property
    def format(self) -> str:
        """The one that is named."""
        return next(name for name in FORMATS if getattr(self, name) is not None)

    @property
    def patterns(self) -> tuple[str, ...]:
        """Globs of files."""
        found: tuple[str, ...] = getattr(self, self.format)
        return found

    def _check_keys(self) -> Iterator[Fault]:
        given = [name for name in FORMATS if getattr(self, name) is not None]
        if len(given) != 1:
            yield Fault(
                given[-1] if given else "", None, f"must name one of {', '.join(FORMATS[:-1])} and {FORMATS[-1]}"
            )
        elif given[0] in ("lines", "npy"):
            for key in ("columns", "id"):
                if getattr(self, key):
                    yield Fault(key, None, f"must be left out for {given[0]}, which has one column and no names")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class PredictOutput:
    """The file that rows are written to."""

    file: Annotated[str, Field(pattern=r"^[^/]+\.(h5|hdf5)$", max_length=200)] = Field(
        default="predictions.h5", description="its name in the run directory"
    )
    names: Names = Field(default=(), description="of the model's outputs, in their order; empty: the model's own")
    dtype: Literal["float32", "float16"] = Field(
        default="float32", description="of all outputs but whole numbers, which keep their type"
    )

    @model_validator(mode="after")
    def _refuse_names(self) -> Self:
        odd = {place: told for place, name in enumerate(self.names) if (told := find_odd_name(name)) is not None}
        odd |= {place: "is there twice" for place, name in enumerate(self.names) if name in self.names[:place]}
        refuse([Fault(f"names.{place}", self.names[place], told) for place, told in odd.items()])
        return self


@dataclass(frozen=True, kw_only=True, config=STRICT)
class BatchSize:
    """How many records go through the model at once; the first limit that is reached ends a batch."""

    tokens: Annotated[int, Field(ge=1, le=100_000_000)] | None = Field(
        default=None,
        description="of all its records, padding counted; a record without an axis that varies counts 1",
    )
    records: Count | None = Field(default=None, description="of a batch")

    @model_validator(mode="after")
    def _refuse_faults(self) -> Self:
        if self.tokens is None and self.records is None:
            refuse([Fault("", None, "must name tokens, records, or both")])
        return self


@dataclass(frozen=True, kw_only=True, config=STRICT)
class PredictQueue:
    """Who computes, and how much at a time."""

    devices: Literal["auto"] | Annotated[tuple[Device, ...], Field(min_length=1, max_length=1000)] = Field(
        default="auto", description="that workers run on, several times: as many workers; auto: all GPUs, else the CPU"
    )
    workers_per_device: Literal["auto"] | Annotated[int, Field(ge=1, le=64)] = Field(
        default="auto",
        description="processes with a model of their own; auto: 1 on a GPU, on the CPU one for each core",
    )
    unit_seconds: Annotated[float, Field(ge=0.01, le=3600)] = Field(
        default=1.0, description="of computing, that are handed out at a time"
    )
    unit: Literal["auto"] | Count = Field(default="auto", description="batches in place of that; auto: by unit_seconds")
    batch: Literal["auto"] | BatchSize = Field(
        default="auto", description="how many records at once; auto: measured, single records among them"
    )
    sort: bool = Field(default=True, description="put records of equal length together, of each window")
    window: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=4096, description="records that are prepared and sorted together"
    )
    timeout: Annotated[float, Field(ge=0.1, le=1_000_000)] = Field(
        default=120.0,
        description="seconds for a batch, a record, or preparing a window, after which its process is replaced",
    )
    slowness: Annotated[tuple[Slowness, ...], Field(max_length=1000)] = Field(
        default=(), description="of each worker, how many times as long as its own time it takes: stands in for "
        "devices that differ; empty: none",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True, config=STRICT)
class PredictSample:
    """What `tfperf predict --sample` measures."""

    records: Annotated[int, Field(ge=1, le=100_000_000)] = Field(default=3200, description="drawn at random")
    replicates: Annotated[int, Field(ge=2, le=100)] = Field(default=3, description="of each measurement")
    total: Annotated[int, Field(ge=1, le=10**12)] | None = Field(
        default=None, description="records that the time is told for; null: those of the source"
    )


@dataclass(frozen=True, kw_only=True, config=STRICT)
class PredictCard(BaseCard):
    """A card of workload predict. Paths are relative to the card."""

    workload: Literal["predict"] = Field(description="what kind of card this is")
    model: PredictModel = Field(description="the model")
    preprocess: RecordPreparation | None = Field(
        default=None, description="what is done to records first; null: the model takes the columns as they are"
    )
    source: RecordSource = Field(description="the records")
    output: PredictOutput = Field(default_factory=PredictOutput, description="where the rows go")
    queue: PredictQueue = Field(default_factory=PredictQueue, description="who computes")
    sample: PredictSample = Field(default_factory=PredictSample, description="what is measured before")
