"""What a capture leaves beside a profile: what only the program knew."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from tfperf.errors import TraceError
from tfperf.results.files import write_atomically
from tfperf.trace.phases import PhaseRules
from tfperf.trace.planes import find_profile_files
from tfperf.trace.work import OperationWork

FILE = "tfperf.json"  # beside the *.xplane.pb
FIRST_CALL = "first call"  # why a function is traced of which none was called before
MADE_ANEW = "first call of a function that is made anew"
KERAS_OPTIMIZERS = (  # as Keras names them where nobody else does
    "adadelta", "adafactor", "adagrad", "adam", "adamax", "adamw", "ftrl", "lamb", "lion", "loss_scale_optimizer",
    "muon", "nadam", "rmsprop", "SGD", "sgd",
)  # fmt: skip
ProgramKind = Literal[
    "engine", "card", "keras", "loop", "jax"
]  # of replicas, of a card with batches, a Keras `fit`, any other of TensorFlow's, one of JAX
Number = Annotated[int, Field(ge=1)]
Amount = Annotated[float, Field(ge=0)]
KNOWN = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, config=KNOWN)
class FunctionTrace:
    """A function that was traced while steps were recorded, and why."""

    function: str
    cause: str


@dataclass(frozen=True, config=KNOWN)
class NotedWork:
    """Work of one execution of an operation in a graph, as OperationWork has it; kind: without a mark of its kernel."""

    name: str
    kind: str
    flops: Amount | None
    bytes: Amount
    transcendental: Amount = 0.0
    precision: Literal["float32", "float64"] = "float32"


@dataclass(frozen=True, config=KNOWN)
class HalfOperation:
    """An operation in a graph that computes in half precision on a processor, by its name.

    single_share: what it takes in float32 over what it takes so; None: not known.
    """

    name: str
    kind: Literal["float16", "bfloat16"]
    single_share: Amount | None = None


@dataclass(frozen=True, config=KNOWN)
class Notes:
    """What a program tells of a profile; the defaults are those of one of another program."""

    own: bool = False  # of a capture of tfperf's
    program: ProgramKind = "loop"
    optimizers: tuple[str, ...] = KERAS_OPTIMIZERS
    forward: tuple[str, ...] | None = None  # scopes of layers, losses and metrics
    loops: Number = 1  # compiled loops that a call runs side by side
    turns: Number | None = None  # steps in a call; None: as many as its training loop takes
    usual_turns: Number | None = None  # of a training whose calls are shorter while they are recorded
    group: str = ""  # the same for captures of one program one after the other
    calls: int | None = None  # marks that were set
    wanted: int | None = None  # calls that were to be recorded
    own_train_function: bool = False  # of a Keras model, which heeds no setting of `compile`
    calls_per_epoch: Annotated[float, Field(gt=0)] | None = None  # less than one where calls go over several
    recorded_ms: float | None = None  # from call to call, median
    unrecorded_ms: float | None = None
    # means of the same, of whole epochs where there are such: right for batches that come in bursts
    recorded_mean_ms: float | None = None
    unrecorded_mean_ms: float | None = None
    traces: tuple[FunctionTrace, ...] = ()
    constant: tuple[str, ...] = ()  # operations that depend on constants, and on weights that no step changes
    table_updates: tuple[tuple[str, str], ...] = ()  # operations on all rows of a table: name, which table
    python_functions: tuple[
        tuple[str, str], ...
    ] = ()  # operations that call such: name, where what they call is written
    half: tuple[HalfOperation, ...] = ()
    cores: Number | None = None  # that the program may use
    cpu: str = ""  # its maker's name of it
    threads: Number | None = None  # that operations share
    work: tuple[NotedWork, ...] = ()  # of operations in graphs that ran
    utilisation: tuple[float | None, ...] = ()  # shares that NVML tells of each GPU when the recording ends
    missing: tuple[str, ...] = ()  # why some of this is not known

    @property
    def rules(self) -> PhaseRules:
        """By which operations are told apart."""
        names = None if self.forward is None else frozenset(self.forward)
        constant, tables = frozenset(self.constant), dict(self.table_updates)
        works = {
            (one.name, one.kind): OperationWork(one.flops, one.bytes, one.transcendental, one.precision)
            for one in self.work
        }
        half = {one.name: 1.0 if one.single_share is None else one.single_share for one in self.half}
        return PhaseRules(frozenset(self.optimizers), names, self.loops, self.turns, constant, tables, works, half)


def parse_notes(values: Mapping[str, Any]) -> Notes:
    """Notes from plain values. Raises: pydantic's ValidationError."""
    return TypeAdapter(Notes).validate_python(dict(values))


def read_notes(path: Path) -> Notes:
    """The notes beside the profile that a path names; the defaults for one of another program. Raises: TraceError."""
    file = find_profile_files(path)[0].parent / FILE
    try:
        return TypeAdapter(Notes).validate_json(file.read_bytes())
    except FileNotFoundError:
        return Notes()
    except OSError as error:
        raise TraceError(f"{file}: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise TraceError(f"{file}: damaged: {where}: {first['msg']}; delete it to go by names alone") from None


def write_notes(folder: Path, notes: Notes) -> None:
    """Write notes into the folder of a profile. Raises: StorageError."""
    with write_atomically(folder / FILE) as temporary:
        temporary.write_bytes(TypeAdapter(dict[str, Any]).dump_json(asdict(notes)))


def list_repeats(path: Path) -> list[Path]:
    """The folders, or the file, of the last profile that a path names and of those recorded in one go with it."""
    files = find_profile_files(path)
    if files == [path]:
        return [path]
    last = files[0].parent
    series = read_notes(last).group
    others = [folder for folder in last.parent.iterdir() if series and folder != last and (folder / FILE).is_file()]
    return [*sorted(folder for folder in others if read_notes(folder).group == series), last]
