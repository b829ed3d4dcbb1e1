"""What a tf.data.Dataset is made of, as records: stages in their order, and the options that it is run by."""

from dataclasses import dataclass
from typing import Literal

from tfperf.inputs.operations import find_file_reads

GENERATOR = "GeneratorDataset"

Calls = int | Literal["auto"]


@dataclass(frozen=True)
class StageFunction:
    """What the function of a stage does, and those that it calls."""

    operations: frozenset[str]  # kinds
    python: tuple[str, ...]  # operations that call Python
    random: tuple[str, ...]  # that draw other numbers each time
    stateful: tuple[str, ...]  # all that depend on more than their inputs, or leave something
    files: tuple[str, ...]  # that read files
    stages: tuple["Stage", ...] = ()  # of datasets that are made inside, as by an interleave


@dataclass(frozen=True)
class Stage:
    """One step of a pipeline. Numbers are those in the graph; None: it has none, or it is computed there."""

    node: str  # its name in the graph
    op: str  # "ParallelMapDatasetV2"
    kind: str  # "map"
    name: str | None  # the user's own, by `name=`
    inputs: tuple[int, ...]  # positions of the stages that it takes elements from
    parallel: Calls | None  # None: sequential
    keeps_order: bool | None  # None: as the options say; of stages that may give it up
    buffer: Calls | None  # elements, of a prefetch or a shuffle
    size: (
        int | None
    )  # elements of a batch, times of a repeat (-1: without end), inputs that an interleave reads at once
    cardinality: float | None  # elements that come out; inf: without end
    function: StageFunction | None
    element_bytes: int | None = None  # of an element, where all have one shape; None: they vary, or are texts

    @property
    def label(self) -> str:
        """The user's name, or the kind."""
        return self.name or self.kind

    @property
    def has_python(self) -> bool:
        """Whether Python runs in it, in a map or as a generator."""
        return self.is_generator or (self.function is not None and bool(self.function.python))

    @property
    def is_generator(self) -> bool:
        """Whether it is a Python generator."""
        return self.op == GENERATOR or (self.function is not None and GENERATOR in self.function.operations)

    @property
    def draws(self) -> bool:
        """Whether its function draws other numbers each time."""
        return self.function is not None and bool(self.function.random)

    @property
    def reads_files(self) -> bool:
        """Whether TensorFlow reads files in it."""
        return bool(find_file_reads([self.op])) or (self.function is not None and bool(self.function.files))


@dataclass(frozen=True)
class StageOptions:
    """What the options of a dataset say of how it is run, with TensorFlow's defaults where they say nothing."""

    autotune: bool
    inject_prefetch: bool  # TensorFlow adds a prefetch to an end that has none
    parallelize_maps: bool  # it runs sequential maps in parallel whose functions have no state
    keeps_order: bool
    threads: int | None  # of the dataset's own pool; None: TensorFlow's, one for each core


@dataclass(frozen=True)
class Pipeline:
    """Stages in the order in which elements go through them, inputs before what takes them; the last is the end."""

    stages: tuple[Stage, ...]
    options: StageOptions

    def list_parents(self, position: int) -> list[int]:
        """Positions of all stages that the elements of one have gone through, in their order."""
        found: set[int] = set()
        waiting = list(self.stages[position].inputs)
        while waiting:
            one = waiting.pop()
            found.add(one)
            waiting += self.stages[one].inputs
        return sorted(found)

    def list_children(self, position: int) -> list[int]:
        """Positions of the stages that take elements of one, directly or not."""
        return [other for other in range(position + 1, len(self.stages)) if position in self.list_parents(other)]
