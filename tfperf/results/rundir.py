"""The directory of one run: who holds it, what was decided in it, which parts of it are done.

card.yaml         the resolved card
environment.json  machine and versions at the start
run.json          state: inputs' hashes, parts (replica ids, attempts, choices), written before the first step
checkpoints/      state of training
vocabularies/     of a translation: the pieces of each language
results.h5, report.json, report.html, events/, once a part is done
"""

import fcntl
import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from tfperf.errors import RunDirectoryError
from tfperf.results.files import atomic_write

CARD, STATE, ENVIRONMENT, LOCK = "card.yaml", "run.json", "environment.json", "lock"
RESULTS, CHECKPOINTS, EVENTS, T0, VOCABULARIES = "results.h5", "checkpoints", "events", "t0", "vocabularies"
REPORT = "report.json"
# in the order in which they are removed: results first, so that none is ever taken for those of another run
MADE = (
    RESULTS, CHECKPOINTS, EVENTS, T0, VOCABULARIES, REPORT, "report.html", "postfit.json", STATE, CARD,
    ENVIRONMENT,
)  # fmt: skip


@dataclass
class Part:
    """Replicas trained together: the first are the card's, extensions and retries add more.

    What does not fit the memory at once is trained in chunks, one part each, one after the other.
    """

    ids: list[int]
    attempts: list[int]
    choices: dict[str, Any] = field(default_factory=dict)  # what can change a bit; empty until decided
    machine: dict[str, Any] = field(default_factory=dict)
    resumed_from_steps: list[int] = field(default_factory=list)
    done: bool = False
    chunk: int = 1  # of `chunks` that one command asked for
    chunks: int = 1
    stacks: list[list[int]] = field(default_factory=list)  # a step, and the stack's size from it on; once done
    bound: dict[str, Any] = field(default_factory=dict)  # work of a step against the machine's limits; once done
    tolerance: dict[str, Any] = field(
        default_factory=dict
    )  # how exact the losses were; once done, where they may not be


@dataclass
class State:
    """run.json."""

    inputs: dict[str, str]  # role -> sha256 of the file
    parts: list[Part]


class RunDirectory:
    """A run directory that this process holds alone until `close`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: IO[str] | None = None
        self.state: State | None = None

    def __enter__(self) -> "RunDirectory":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def exists(self) -> bool:
        """Whether a run was started here."""
        return (self.path / STATE).exists()

    def hold(self) -> None:
        """Make the directory if need be and lock it; RunDirectoryError when another process has it."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = open(self.path / LOCK, "w", encoding="utf-8")  # noqa: SIM115 - held until close
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunDirectoryError(
                f"{self.path}: another process is running here; wait for it or choose another"
            ) from None
        except OSError as error:
            raise RunDirectoryError(f"{self.path}: cannot be used as a run directory: {error.strerror}") from None

    def close(self) -> None:
        """Release the directory."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def make_room(self, force: bool, more: str = "") -> None:
        """Clear what an earlier run left, if `force` allows; RunDirectoryError for a run or other files in the way."""
        if self.exists and not force:
            raise RunDirectoryError(f"{self.path}: holds a run; --resume goes on with it, {more}--force begins again")
        names = {p.name for p in self.path.iterdir() if p.suffix != ".tmp"} - {LOCK}
        # a run that was killed before its state was written leaves nothing worth keeping; a card alone is a user's own
        unstarted = names <= set(MADE) - {VOCABULARIES} and (CARD not in names or ENVIRONMENT in names)
        if not self.exists and not unstarted:
            raise RunDirectoryError(f"{self.path}: is not empty and holds no run; choose another folder")
        for name in MADE:
            target = self.path / name
            if target.is_dir():
                shutil.rmtree(target)
            else:
                target.unlink(missing_ok=True)

    def load(self) -> State:
        """Read the state; RunDirectoryError when there is none or it is damaged."""
        if not self.exists:
            raise RunDirectoryError(f"{self.path}: holds no run to go on with")
        try:
            raw = json.loads((self.path / STATE).read_text(encoding="utf-8"))
            self.state = State(dict(raw["inputs"]), [Part(**p) for p in raw["parts"]])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunDirectoryError(f"{self.path / STATE}: damaged: {error}") from None
        return self.state

    def start(self, card: str, environment: Mapping[str, Any], state: State) -> None:
        """Write what a new run needs; the state last, since it marks the directory as a run."""
        self._write(ENVIRONMENT, json.dumps(environment, indent=1) + "\n")
        self._write(CARD, card)
        self.save(state)

    def save(self, state: State) -> None:
        """Write the state."""
        self.state = state
        self._write(STATE, json.dumps(asdict(state), indent=1) + "\n")

    def save_state(self) -> None:
        """Write the state as it is now."""
        assert self.state is not None
        self.save(self.state)

    def pending(self) -> Part | None:
        """The first part that is not done."""
        return next((part for part in self.state.parts if not part.done), None) if self.state is not None else None

    def group(self, part: Part) -> list[Part]:
        """The parts that one command asked for together with this one, in their order."""
        assert self.state is not None
        first = next(i for i, p in enumerate(self.state.parts) if p is part) - part.chunk + 1
        return self.state.parts[first : first + part.chunks]

    def has_finished_parts(self) -> bool:
        """Whether results.h5 holds replicas of parts that are done."""
        return self.state is not None and any(part.done for part in self.state.parts)

    def _write(self, name: str, text: str) -> None:
        with atomic_write(self.path / name) as temporary:
            temporary.write_text(text, encoding="utf-8")


def file_hash(path: Path) -> str:
    """The sha256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
