"""The configuration of a translation: an attention LSTM encoder-decoder trained on sentence pairs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from tfperf.runcard.faults import Fault, refuse
from tfperf.runcard.memory import MemoryBudget
from tfperf.runcard.model_optimizer import ModelOptimizer
from tfperf.runcard.nodes import CardNode
from tfperf.runcard.placement import FIXED_LENGTH, MOST, Placement
from tfperf.runcard.profile import Profile
from tfperf.runcard.sweep import Sweep
from tfperf.runcard.types import STRICT, Name, Seed, Step, Title

Share = Annotated[float, Field(gt=0, lt=1)]
Length = Annotated[int, Field(ge=1, le=1000)]
DEFAULT_BATCH = 128
STUDY_LENGTH = 100  # words of the sentences of preset Exp5


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Corpus:
    """Sentence pairs in one of three forms. Paths are relative to the card."""

    source: Path | None = Field(default=None, description="text file, also .gz, of source sentences, one a line")
    target: Path | None = Field(default=None, description="text file of their translations, line by line")
    table: Path | None = Field(default=None, description="tab-separated file with both, a line of names first")
    columns: Annotated[tuple[Name, ...], Field(min_length=2, max_length=2)] = Field(
        default=("source", "target"), description="columns of the table: source, target"
    )
    hdf5: Path | None = Field(default=None, description="HDF5 file with datasets of texts, source and target")

    @model_validator(mode="after")
    def _refuse_faults(self) -> Self:
        refuse(self._check_keys())
        return self

    def _check_keys(self) -> Iterator[Fault]:
        given = [key for key in ("source", "table", "hdf5") if getattr(self, key) is not None]
        if len(given) > 1:
            yield Fault(given[1], str(getattr(self, given[1])), f"must be left out beside {given[0]}")
        if (self.source is None) != (self.target is None):
            missing, there = ("source", "target") if self.source is None else ("target", "source")
            yield Fault(missing, None, f"must be given with {there}")
        elif not given:
            yield Fault("", None, "must name source and target, table or hdf5")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Text:
    """Which sentences, cut into which pieces, in batches of which length."""

    training: Corpus | None = Field(default=None, description="sentence pairs to train on; null: fixed_length ones")
    validation: Corpus | None = Field(default=None, description="pairs that validate; null: validation_share")
    test: Corpus | None = Field(default=None, description="pairs that are translated at the end; null: test_share")
    validation_share: Share = Field(default=0.05, description="of the training pairs, chosen by a hash of the sentence")
    test_share: Share = Field(default=0.05, description="the same for the test")
    fixed_length: Length | None = Field(
        default=None,
        description="pieces a sentence of a synthetic corpus in place of text; null: text, but 100 for preset Exp5",
    )
    pairs: Annotated[int, Field(ge=1, le=10_000_000)] = Field(
        default=10_000, description="sentence pairs of the synthetic corpus"
    )
    vocabulary: Annotated[int, Field(ge=300, le=1_000_000)] = Field(
        default=8000, description="pieces (byte pair encoding) of each language at most"
    )
    max_length: Length = Field(default=50, description="pieces of a sentence; longer pairs are left out and counted")
    batch: Literal["auto"] | Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=DEFAULT_BATCH,
        description="sentence pairs per device; auto: the most that a memory study verifies, of one device",
    )
    shuffle: bool = Field(default=True, description="draw a new order for each epoch; false: the corpus' own")
    buckets: Literal["shared", "per_device", "none"] = Field(
        default="shared",
        description="shared: pairs of like length in a batch for all devices, divided among them; per_device: each "
        "device has a bucket of its own; none: pairs as they come",
    )
    bucket_width: Length = Field(default=4, description="lengths that differ by less share a bucket")
    scaling: Literal["strong", "weak"] | None = Field(
        default=None,
        description="null: batches drawn for the devices that there are; else the same global batches, of batch x "
        "scaling_devices pairs, for any number of devices. strong: they divide all of it; weak: each takes a batch of "
        "it, the rest is left out",
    )
    scaling_devices: Annotated[int, Field(ge=1, le=MOST)] | None = Field(
        default=None, description="the most devices that are compared; given with scaling"
    )

    @model_validator(mode="after")
    def _refuse_faults(self) -> Self:
        refuse(self._check_keys())
        return self

    def _check_keys(self) -> Iterator[Fault]:
        if self.scaling is None and self.scaling_devices is not None:
            yield Fault("scaling_devices", self.scaling_devices, "must be left out without data.scaling")
        if self.scaling is not None and self.scaling_devices is None:
            yield Fault("scaling_devices", None, f"must be given with data.scaling = {self.scaling}")
        if self.scaling is not None and self.buckets == "per_device":
            text = f"with data.scaling = {self.scaling} must be shared or none: all devices have the same lengths"
            yield Fault("buckets", self.buckets, text)

    def check_devices(self, devices: int) -> Iterator[Fault]:
        """What cannot be done with so many devices; with `all` they are known only where the card runs."""
        if self.scaling is None or self.scaling_devices is None:
            return
        if devices > self.scaling_devices:
            yield Fault("scaling_devices", self.scaling_devices, f"must be at least placement.devices = {devices}")
        elif self.scaling == "strong" and self.known_batch * self.scaling_devices % devices:
            pairs = self.known_batch * self.scaling_devices
            yield Fault("batch", self.batch, f"{devices} devices cannot share {pairs} pairs of a step equally")

    def compute_batch(self, devices: int) -> int:
        """Sentence pairs of each of so many devices in a step."""
        if self.scaling == "strong" and self.scaling_devices is not None:
            return self.known_batch * self.scaling_devices // devices
        return self.known_batch

    @property
    def known_batch(self) -> int:
        """As the card says; the default where a study is still to decide."""
        return DEFAULT_BATCH if self.batch == "auto" else self.batch

    def count_batch_devices(self, devices: int) -> int:
        """For how many devices of `batch` pairs global batches are drawn."""
        return devices if self.scaling_devices is None else self.scaling_devices


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Network:
    """Encoder and decoder, LSTM layers of equal width, dot attention without parameters in between."""

    units: Annotated[int, Field(ge=1, le=8192)] = Field(default=512, description="of each LSTM layer and embedding")
    layers: Annotated[int, Field(ge=1, le=16)] = Field(
        default=4, description="LSTM layers of the encoder, and as many of the decoder"
    )
    table: Annotated[int, Field(ge=300, le=10_000_000)] | None = Field(
        default=None,
        description="rows of both embeddings and of the projection; null: as many as the vocabulary has pieces",
    )
    dropout: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.0, description="share of activations between layers that is left out in training"
    )


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Schedule:
    """How long, and what happens in between."""

    steps: Step = Field(description="optimizer steps")
    steps_per_call: Step = Field(default=10, description="steps inside one compiled call")
    validate_every: Step = Field(default=200, description="steps between validation losses, at the next call's end")
    checkpoint_every: Step = Field(default=200, description="steps between checkpoints, at the next call's end")
    optimizer: ModelOptimizer = Field(default_factory=ModelOptimizer, description="a Keras optimizer and its arguments")

    @model_validator(mode="after")
    def _refuse_faults(self) -> Self:
        if self.steps_per_call > self.steps:
            refuse([Fault("steps_per_call", self.steps_per_call, f"must be at most train.steps = {self.steps}")])
        return self


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Execution:
    """How a device computes its part of a step."""

    precision: Literal["float32", "float64"] = Field(default="float32", description="of weights and arithmetic")
    xla: bool = Field(default=False, description="compile forward and backward pass of each device with XLA")
    lstm: Literal["auto", "plain", "cudnn", "block"] = Field(
        default="auto",
        description="LSTM kernel: cudnn on GPUs; block: TensorFlow's operation for a whole sentence, float32 without "
        "XLA; plain: a loop of operations; auto: cudnn where it can run, else block where it can",
    )
    embedding_gradients: Literal["sparse", "dense"] = Field(
        default="sparse",
        description="what is sent of an embedding's gradient: the rows that a batch uses, or the whole table",
    )

    @model_validator(mode="after")
    def _refuse_faults(self) -> Self:
        if self.lstm == "block" and (self.xla or self.precision != "float32"):
            refuse([Fault("lstm", self.lstm, "must be auto or plain with engine.xla, and in float64")])
        return self


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Decoding:
    """How the test sentences are translated at the end."""

    beam: Annotated[int, Field(ge=1, le=64)] = Field(default=4, description="hypotheses kept; 1: greedy alone")
    max_length: Length = Field(default=60, description="pieces of a translation at most")
    samples: Annotated[int, Field(ge=0, le=1000)] = Field(default=20, description="translations shown in the report")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class TranslationCard:
    """A whole runcard of workload translate."""

    card_node: ClassVar[CardNode | None] = None  # of a loaded card the tree that it came from

    workload: Literal["translate"] = Field(description="what kind of card this is")
    title: Title = Field(default="", description="what the report is headed with")
    seed: Seed = Field(default=0, description="the one seed that all draws derive from")
    data: Text = Field(description="which sentences, in which batches")
    model: Network = Field(default_factory=Network, description="encoder and decoder")
    train: Schedule = Field(description="how long and with which optimizer")
    placement: Placement = Field(default_factory=Placement, description="where variables, slots and updates live")
    engine: Execution = Field(default_factory=Execution, description="how a device computes its part of a step")
    decode: Decoding = Field(default_factory=Decoding, description="how the test sentences are translated")
    profile: Profile | None = Field(default=None, description="steps to be recorded for tfperf profile")
    sweep: Sweep | None = Field(default=None, description="values that tfperf sweep goes through")
    memory: MemoryBudget | None = Field(default=None, description="what tfperf memory may use")

    @model_validator(mode="after")
    def _refuse_faults(self) -> Self:
        refuse(self._check_keys())
        return self

    @property
    def fixed_length(self) -> int | None:
        """Pieces a sentence of the synthetic corpus; None: text is read."""
        if self.data.fixed_length is None and self.placement.preset == FIXED_LENGTH:
            return STUDY_LENGTH
        return self.data.fixed_length

    def _check_keys(self) -> Iterator[Fault]:
        if self.data.training is None and self.fixed_length is None:
            yield Fault("data.training", None, "must name sentence pairs, unless data.fixed_length is given")
        if self.model.table is not None and self.model.table < self.data.vocabulary:
            yield Fault("model.table", self.model.table, f"must be at least data.vocabulary = {self.data.vocabulary}")
        if self.data.validation_share + self.data.test_share >= 1:
            yield Fault("data.test_share", self.data.test_share, "must leave pairs to train on, beside validation")
        if self.placement.devices != "all":
            faults = self.data.check_devices(self.placement.devices)
            yield from (Fault(f"data.{fault.key}", fault.value, fault.text) for fault in faults)
