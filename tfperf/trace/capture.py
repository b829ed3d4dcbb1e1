"""A window of steps recorded by TensorFlow's profiler, with the marks by which its viewer and tfperf know them.

Beside the profile lies what only the program knows: its optimizers' and layers' names, and how long steps take that
nobody records.
"""

import json
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from tfperf.results.files import atomic_write
from tfperf.trace.functions import Seen, causes, constant_operations, seen
from tfperf.trace.phases import Rules
from tfperf.trace.planes import TraceError, profile_files

NOTES = "tfperf.json"  # beside the *.xplane.pb
STEP = "step"  # name of the marks
KERAS_OPTIMIZERS = frozenset([  # as Keras names them where nobody else does
    "adadelta", "adafactor", "adagrad", "adam", "adamax", "adamw", "ftrl", "lamb", "lion", "loss_scale_optimizer",
    "muon", "nadam", "rmsprop", "SGD", "sgd",
])  # fmt: skip


@dataclass
class Capture:
    """The window: `skip` calls that are only timed, then `steps` that are recorded; the rest runs on untouched."""

    logdir: Path
    steps: int
    skip: int
    host_level: int
    optimizers: Collection[str] = ()
    forward: Collection[str] | None = None  # scopes of layers, losses and metrics
    loops: int = 1  # compiled loops that a call runs side by side
    program: str = "loop"  # engine: tfperf's own training; keras: a `fit`; loop: any other
    group: str = ""  # the same for captures of one program one after the other
    seconds: list[float] = field(default_factory=list)  # of each call, recorded ones included
    recording: bool = False
    done: bool = False
    traces: list[dict[str, str]] = field(default_factory=list)  # functions traced in the window, and why
    _seen: Seen = field(default_factory=dict)

    @contextmanager
    def step(self, number: int) -> Iterator[None]:
        """One step, or one compiled call of several; whatever runs on a device has to have ended inside."""
        import tensorflow as tf

        if len(self.seconds) == self.skip and not self.done:
            self._start()
        start = time.perf_counter()
        if self.recording:
            with tf.profiler.experimental.Trace(STEP, step_num=number, _r=1):
                yield
        else:
            yield
        self.seconds.append(time.perf_counter() - start)
        if self.recording and len(self.seconds) == self.skip + self.steps:
            self.stop()

    def _start(self) -> None:
        import tensorflow as tf

        self._seen = seen()
        options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=self.host_level)
        try:
            tf.profiler.experimental.start(str(self.logdir), options)
        except tf.errors.AlreadyExistsError:
            raise TraceError("another profile is being recorded in this process; only one can be at a time") from None
        self.recording = True

    def stop(self) -> None:
        """End the recording, where there is one."""
        import tensorflow as tf

        if self.recording:
            self.recording, self.done = False, True
            tf.profiler.experimental.stop()
            self.traces = causes(self._seen)
            with atomic_write(profile_files(self.logdir)[0].parent / NOTES) as temporary:
                temporary.write_text(json.dumps(self.notes()), encoding="utf-8")

    @property
    def recorded_ms(self) -> float | None:
        """Median of the recorded calls."""
        recorded = self.seconds[self.skip : self.skip + self.steps]
        return 1e3 * median(recorded) if recorded else None

    @property
    def unrecorded_ms(self) -> float | None:
        """Median of the others but for the first, which compiles."""
        others = self.seconds[1 : self.skip] + self.seconds[self.skip + self.steps :]
        return 1e3 * median(others) if others else None

    def notes(self) -> dict[str, Any]:
        """What lies beside the profile."""
        return {
            "optimizers": sorted(self.optimizers), "forward": None if self.forward is None else sorted(self.forward),
            "loops": self.loops, "program": self.program, "group": self.group,
            "calls": self.steps, "traces": self.traces, "constant": sorted(constant_operations()),
            "call_ms": {"recorded": self.recorded_ms, "unrecorded": self.unrecorded_ms},
        }  # fmt: skip


@contextmanager
def capture(logdir: Path | str, steps: int = 10, skip: int = 3, host_level: int = 2) -> Iterator[Capture]:
    """Record `steps` steps of a training loop after `skip` others: `with c.step(i):` around each.

    host_level: 1 marks alone, 2 operations, 3 all that the runtime does. Raises: TraceError at the end when too few
    steps ran for any to be recorded.
    """
    taken = Capture(Path(logdir), steps, skip, host_level)
    try:
        yield taken
    finally:
        taken.stop()
    if not taken.done:
        raise TraceError(
            f"{logdir}: nothing was recorded: {len(taken.seconds)} steps ran, the first {skip} are skipped"
        )


def read_notes(path: Path) -> dict[str, Any]:
    """What a capture left beside a profile; empty for one of another program. Raises: TraceError."""
    file = profile_files(path)[0].parent / NOTES
    try:
        notes: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        rules_of(notes)
        return notes
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise TraceError(f"{file}: damaged: {error!r}; delete it to go by names alone") from None


def repeats(path: Path) -> list[Path]:
    """The folders, or the file, of the last profile that a path names and of those recorded in one go with it."""
    files = profile_files(path)
    if path.is_file():
        return [path]
    last = files[0].parent
    group = read_notes(last).get("group")
    others = [folder for folder in last.parent.iterdir() if folder.is_dir() and folder != last and group]
    return [*sorted(o for o in others if (o / NOTES).is_file() and read_notes(o).get("group") == group), last]


def rules_of(notes: Mapping[str, Any]) -> Rules:
    """The rules that follow from notes; without any those of names alone."""
    if not notes:
        return Rules(KERAS_OPTIMIZERS)
    forward = notes.get("forward")
    return Rules(
        frozenset(notes["optimizers"]), None if forward is None else frozenset(forward),
        max(1, int(notes.get("loops", 1))), frozenset(notes.get("constant", ())),
    )  # fmt: skip
