"""Where a model and its samples come from: keys for the cards of any workload."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from tfperf.runcard.faults import Fault, refuse
from tfperf.runcard.input_settings import InputSettings
from tfperf.runcard.types import STRICT, CodeName, Folder, Name, Names, Step

Text = Annotated[str, Field(max_length=4096)]
Whole = Annotated[int, Field(ge=-(2**53), le=2**53)]
Number = Annotated[float, Field(ge=-1e300, le=1e300)]
Scalar = bool | Whole | Number | Text | None
Value = Scalar | Annotated[tuple[Scalar, ...], Field(max_length=1000)]
CallArguments = Annotated[dict[Name, Value], Field(max_length=100)]
Choices = Annotated[
    dict[Name, Annotated[tuple[Value, ...], Field(min_length=1, max_length=20)]], Field(min_length=1, max_length=20)
]
Share = Annotated[float, Field(gt=0, lt=1)]
Pixels = Annotated[int, Field(ge=1, le=10_000)]
Precision = Literal["float32", "float64", "bfloat16", "mixed_bfloat16", "mixed_float16"]
OF_FILES = ("inputs", "targets", "weights", "columns")  # keys that say which arrays of a file are what
OF_IMAGES = ("image_size", "channels")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ModelSource:
    """Where the model comes from: a function that returns it, or a file."""

    build: CodeName | None = Field(
        default=None, description="function that returns a keras.Model: file.py:function or module:function"
    )
    arguments: CallArguments = Field(default_factory=dict, description="its keyword arguments")
    file: Path | None = Field(default=None, description=".keras file in place of a function; Keras' safe mode reads it")
    custom_objects: Path | None = Field(
        default=None, description="Python file with the classes and functions of your own that the .keras file names"
    )
    precision: Precision | None = Field(
        default=None, description="Keras' dtype policy while the function builds; null: Keras' own"
    )

    @model_validator(mode="after")
    def _refuse_faults(self) -> Self:
        refuse([*_check_origin({"build": self.build, "file": self.file}), *self._check_keys()])
        return self

    def _check_keys(self) -> Iterator[Fault]:
        if self.build is None and self.arguments:
            yield Fault("arguments", None, "must be left out without build")
        if self.build is None and self.precision is not None:
            yield Fault("precision", self.precision, "must be left out for a file, whose layers have their own")
        if self.file is None and self.custom_objects is not None:
            yield Fault("custom_objects", None, "must be left out without file; a function imports what it needs")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class SampleSource:
    """Where samples come from: a function, a file, a folder of images, or a store that `tfperf store` made."""

    build: CodeName | None = Field(
        default=None,
        description="function that returns arrays x, (x, y) or (x, y, sample weights), a tf.data.Dataset of batches of "
        "them, or a keras.utils.PyDataset",
    )
    arguments: CallArguments = Field(default_factory=dict, description="its keyword arguments")
    file: Path | None = Field(default=None, description=".npz, HDF5, CSV or Parquet file in place of a function")
    inputs: Names = Field(
        default=(),
        description="arrays or columns of the file that the model takes; empty: x of arrays, of a table all columns "
        "that are nothing else; several arrays are a dict",
    )
    targets: Names = Field(
        default=("y",), description="arrays or columns that it is to find; several arrays are a dict"
    )
    weights: Name | None = Field(default=None, description="array or column with a weight for each sample")
    columns: Literal["array", "dict"] = Field(
        default="array", description="of a table: one array of all columns, or a dict of them by name"
    )
    folder: Folder | None = Field(default=None, description="folder of images in place of a file: a folder a class")
    image_size: tuple[Pixels, Pixels] | None = Field(default=None, description="height and width of the images")
    channels: Literal[1, 3, 4] = Field(default=3, description="of the images")
    store: Folder | None = Field(
        default=None,
        description="folder that `tfperf store` made: the stages of a dataset that it stands for are not run; the "
        "function that made the dataset may stand beside it",
    )

    @model_validator(mode="after")
    def _refuse_faults(self) -> Self:
        build = None if self.store is not None else self.build  # which a store may have beside it
        origins = {"build": build, "file": self.file, "folder": self.folder, "store": self.store}
        refuse([*_check_origin(origins), *self._check_keys()])
        return self

    def _check_keys(self) -> Iterator[Fault]:
        if self.build is None and self.arguments:
            yield Fault("arguments", None, "must be left out without build")
        if self.folder is not None and self.image_size is None:
            yield Fault("image_size", None, "missing; a folder of images needs it: [height, width]")
        for key in OF_FILES if self.file is None else ():
            if getattr(self, key) != SampleSource.__dataclass_fields__[key].default.default:
                yield Fault(key, None, "must be left out without file")
        for key in OF_IMAGES if self.folder is None else ():
            if getattr(self, key) != SampleSource.__dataclass_fields__[key].default.default:
                yield Fault(key, None, "must be left out without folder")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ValidationSource(SampleSource):
    """Samples of their own that validate."""

    steps: Step | None = Field(default=None, description="batches of a validation; null: all there are")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class DataSource(SampleSource):
    """Where the samples come from, and how they are cut into batches."""

    batch: Literal["auto"] | Annotated[int, Field(ge=1, le=10_000_000)] | None = Field(
        default=None,
        description="samples of a step, on all devices together; auto: the largest that a memory study verifies; null: "
        "32, or as the function's batches have them",
    )
    shuffle: bool | None = Field(
        default=None,
        description="draw a new order for each epoch, of a PyDataset's batches; null: yes, but for a tf.data.Dataset, "
        "which has its own",
    )
    validation: Share | ValidationSource | None = Field(
        default=None,
        description="share of the samples, the last ones, of images as many of each class, that validates after each "
        "epoch; or data of its own; null: none",
    )
    input: Literal["auto"] | InputSettings | None = Field(
        default=None,
        description="how a tf.data.Dataset is run; auto: as measured before the first step, once for a machine, data "
        "and code; null: as it is",
    )
    choices: Choices | None = Field(
        default=None,
        description="other values of the function's arguments, which `tfperf input --apply` may try: {argument: [...]}",
    )

    @model_validator(mode="after")
    def _refuse_choices(self) -> Self:
        if self.choices is not None and self.build is None:
            refuse([Fault("choices", None, "must be left out without build")])
        return self


def _check_origin(origins: Mapping[str, object]) -> Iterator[Fault]:
    given = [key for key, value in origins.items() if value is not None]
    if len(given) != 1:
        *first, last = origins
        yield Fault(given[-1] if given else "", None, f"must name one of {', '.join(first)} and {last}")
