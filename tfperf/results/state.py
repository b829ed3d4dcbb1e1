"""run.json: what was decided for a run, and which parts of it are done; read back only if it is whole.

format     2; runs of tfperf 0.1.0 have inputs and parts alone
sha256     of all that follows
version    of the program that began the run
run        32 hexadecimal digits drawn at its start: checkpoints and results of the same run carry them, too
digest     sha256 of what a resumed run must share with it: card and files
inputs     sha256 of each file, by the key of the card that names it
decided    by keys of the card that said auto, what was decided before the run began, and how
parts      trained one after the other, each with a number of its own (key) and the workload's state of it (own);
           everything else of a part is any workload's
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, field, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar
from uuid import uuid4

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from tfperf.errors import RunDirectoryError
from tfperf.results.files import write_atomically
from tfperf.results.reading import read_json

FORMAT = 2
STRICT = ConfigDict(strict=True, extra="forbid")
MOST_STEPS, MOST_PARTS = 10**9, 10**6
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
StepCount = Annotated[int, Field(ge=0, le=MOST_STEPS)]
Own = TypeVar("Own")
AnyOwn = dict[str, Any]  # where it does not matter what a workload keeps


@dataclass(config=STRICT)
class Part(Generic[Own]):
    """What is trained at once; most runs have one."""

    own: Own  # the workload's state
    key: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]  # drawn when it was asked for: its checkpoints carry it
    choices: dict[str, Any] = field(default_factory=dict)  # what can change a bit; empty until decided
    machine: dict[str, Any] = field(default_factory=dict)
    resumed_from_steps: list[StepCount] = field(default_factory=list)
    done: bool = False


@dataclass(config=STRICT)
class RunState(Generic[Own]):
    """run.json."""

    digest: Sha256
    inputs: dict[str, Sha256]
    parts: Annotated[list[Part[Own]], Field(min_length=1, max_length=MOST_PARTS)]
    version: Annotated[str, Field(min_length=1, max_length=64)]
    run: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    decided: dict[str, Any] = field(default_factory=dict)

    @property
    def pending(self) -> Part[Own] | None:
        """The first part that is not done."""
        return next((part for part in self.parts if not part.done), None)

    @property
    def identity(self) -> "Identity":
        """What files of this run carry."""
        return Identity(self.run, self.digest)


@dataclass(config=STRICT, frozen=True)
class Identity:
    """Whose a file is: the run's number, and the digest of its card and files."""

    run: str
    digest: str


@dataclass(config=STRICT)
class OldPart:
    """A part as tfperf 0.1.0 wrote it, for every workload."""

    ids: list[int]
    attempts: list[int]
    choices: dict[str, Any]
    machine: dict[str, Any]
    resumed_from_steps: list[StepCount]
    done: Literal[True]  # what is not finished is not gone on with
    chunk: int
    chunks: int
    stacks: list[list[int]]
    bound: dict[str, Any]
    tolerance: dict[str, Any]


OLD = "0.1.0"
OLD_KEYS = {"inputs", "parts"}
NO_RUN = "0" * 32  # stands for the number that runs of tfperf 0.1.0 lack


def make_key() -> str:
    """A number that no other run or part has."""
    return uuid4().hex


def write_state(path: Path, state: RunState[Own]) -> None:
    """Write run.json. Raises: StorageError."""
    content = asdict(state)
    text = json.dumps({"format": FORMAT, "sha256": _digest(content), **content}, indent=1)
    with write_atomically(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def read_state(path: Path, own: type[Own]) -> RunState[Own]:
    """run.json, whose parts have a workload's state of type `own`; of tfperf 0.1.0 only that of a finished run.

    Raises: RunDirectoryError where there is none, where it is damaged, or where this program cannot go on with it.
    """
    content = read_json(path)
    try:
        if isinstance(content, dict) and content.keys() == OLD_KEYS:
            return _convert_old(path, content, own)
        return _parse_state(content, own)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise RunDirectoryError(f"{path}: damaged: {place}: {first['msg']}") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RunDirectoryError(f"{path}: damaged: {error}") from None


def _parse_state(content: Any, own: type[Own]) -> RunState[Own]:
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        number = content.get("format") if isinstance(content, dict) else None
        raise ValueError(f"format: got {number!r}; this program reads {FORMAT}")
    rest = {key: value for key, value in content.items() if key not in ("format", "sha256")}
    if content.get("sha256") != _digest(rest):
        raise ValueError("its checksum does not fit what it says; it is not meant to be edited")
    found: RunState[Own] = _validate(RunState[own], rest)  # type: ignore[valid-type]
    return found


def _validate(kind: Any, content: Any) -> Any:
    # by way of JSON, for strict records are taken from mappings there alone
    return TypeAdapter(kind).validate_json(json.dumps(content))


def _convert_old(path: Path, content: Mapping[str, Any], own: type[Own]) -> RunState[Own]:
    parts = content["parts"]
    if isinstance(parts, list) and any(isinstance(part, dict) and part.get("done") is False for part in parts):
        raise RunDirectoryError(
            f"{path}: begun by tfperf {OLD} and not finished; this version goes on with none of its runs: finish it "
            f"with tfperf {OLD}, or begin again by --force"
        )
    names = {f.name for f in fields(own)} if is_dataclass(own) else set()
    old = [_validate(OldPart, part) for part in parts]
    made = [
        {"key": NO_RUN, "own": {key: value for key, value in asdict(part).items() if key in names},
         "choices": part.choices,
         "machine": part.machine, "resumed_from_steps": part.resumed_from_steps, "done": True}
        for part in old
    ]  # fmt: skip
    state = {"digest": NO_RUN * 2, "inputs": content["inputs"], "parts": made, "version": OLD, "run": NO_RUN}
    found: RunState[Own] = _validate(RunState[own], state)  # type: ignore[valid-type]
    return found


def _digest(content: Mapping[str, Any]) -> str:
    """sha256 of a JSON value, whatever the order of its keys and the spaces in it."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
