"""A window of steps recorded by TensorFlow's profiler, with the marks by which its viewer and tfperf know them.

Beside the profile lies what only the program knows: its optimizers' and layers' names, and how long steps take that
nobody records.
"""

import gc
import os
import reprlib
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TypeVar

from tfperf.errors import StorageError, TraceError, UserError
from tfperf.trace.functions import SignatureCounts, count_signatures, find_constant_operations, list_traces
from tfperf.trace.notes import KERAS_OPTIMIZERS, FunctionTrace, Notes, ProgramKind, write_notes
from tfperf.trace.operations import has_operations
from tfperf.trace.planes import read_space

STEP = "step"  # name of the marks
SESSIONS = "plugins/profile/*"
MOST = 100_000_000
RANGES = {"steps": (1, MOST), "skip": (0, MOST), "host_level": (1, 3), "steps_per_call": (1, MOST)}
T = TypeVar("T")


@dataclass
class Capture:
    """The window: `skip` calls that are only timed, then `steps` that are recorded; the rest runs on untouched."""

    logdir: Path
    calls: int
    skip: int
    host_level: int
    optimizers: Collection[str] = ()  # empty: those of Keras that are there when the recording ends
    forward: Collection[str] | None = None  # scopes of layers, losses and metrics
    loops: int = 1  # and the rest as in Notes
    turns: int | None = None
    program: ProgramKind = "loop"
    series: str = ""  # the `group` of Notes
    read_utilisation: Callable[[], tuple[float | None, ...]] = tuple  # of each GPU, by its driver
    seconds: list[float] = field(default_factory=list)  # of each call, recorded ones included
    recording: bool = False
    done: bool = False
    failed: str = ""  # why a harmless recording has none
    _before: set[Path] = field(default_factory=set)  # sessions that were there
    _seen: SignatureCounts = field(default_factory=dict)
    _utilisation: tuple[float | None, ...] = ()  # when the recording ended

    def __post_init__(self) -> None:
        """Raises: UserError with all that is out of its range."""
        values = {"steps": self.calls, "skip": self.skip, "host_level": self.host_level}
        if self.turns is not None:
            values["steps_per_call"] = self.turns
        wrong = [
            f"{name}: got {reprlib.repr(value)}; must be a whole number from {RANGES[name][0]} to {RANGES[name][1]}"
            for name, value in values.items()
            if type(value) is not int or not RANGES[name][0] <= value <= RANGES[name][1]
        ]
        if wrong:
            raise UserError(*wrong)

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
        if self.recording and len(self.seconds) == self.skip + self.calls:
            self.stop()

    def _start(self) -> None:
        import tensorflow as tf

        self._seen, self._before = count_signatures(), set(self.logdir.glob(SESSIONS))
        options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=self.host_level)
        try:
            self.logdir.mkdir(parents=True, exist_ok=True)
            tf.profiler.experimental.start(str(self.logdir), options)
        except tf.errors.AlreadyExistsError:
            raise TraceError("another profile is being recorded in this process; only one can be at a time") from None
        except OSError as error:
            raise TraceError(f"{self.logdir}: {error.strerror}") from None
        self.recording = True

    @contextmanager
    def step_safely(self, number: int) -> Iterator[None]:
        """The same, but what goes wrong with the recording ends nothing; `failed` says it."""
        step = self.step(number)
        try:
            step.__enter__()
        except TraceError as error:
            self._give_up(error)
            yield
            return
        try:
            yield
        except BaseException:
            step.__exit__(*sys.exc_info())
            raise
        try:
            step.__exit__(None, None, None)
        except TraceError as error:
            self._give_up(error)

    def _give_up(self, error: TraceError) -> None:
        self.recording, self.done, self.failed = False, True, str(error)

    def stop(self) -> None:
        """End the recording, where there is one.

        Raises: TraceError where it holds no operation or cannot be written; no part of it is left then.
        """
        import tensorflow as tf

        if not self.recording:
            return
        self.recording, self.done = False, True
        self._utilisation = self.read_utilisation()
        try:
            tf.profiler.experimental.stop()
            for folder in self._list_new_sessions():
                write_notes(folder, self.make_notes())
        except (tf.errors.OpError, StorageError) as error:
            for folder in self._list_new_sessions():
                shutil.rmtree(folder, ignore_errors=True)
            raise TraceError(f"{self.logdir}: the profile cannot be written: {error}") from None
        if not any(has_operations(read_space(f)) for one in self._list_new_sessions() for f in one.glob("*.xplane.pb")):
            raise TraceError(f"{self.logdir}: the profile holds no operation: nothing ran in the window")

    def _list_new_sessions(self) -> list[Path]:
        """Sessions that this recording made."""
        return sorted(set(self.logdir.glob(SESSIONS)) - self._before)

    @property
    def recorded_ms(self) -> float | None:
        """Median of the recorded calls."""
        recorded = self.seconds[self.skip : self.skip + self.calls]
        return 1e3 * median(recorded) if recorded else None

    @property
    def unrecorded_ms(self) -> float | None:
        """Median of the others but for the first, which compiles."""
        others = self.seconds[1 : self.skip] + self.seconds[self.skip + self.calls :]
        return 1e3 * median(others) if others else None

    def make_notes(self) -> Notes:
        """What lies beside the profile."""
        missing: list[str] = []
        traces = _try_collect("causes of traces", lambda: list_traces(self._seen), missing)
        return Notes(
            own=True, program=self.program, optimizers=tuple(sorted(self.optimizers or find_optimizers())),
            loops=self.loops,
            forward=None if self.forward is None else tuple(sorted(self.forward)), turns=self.turns, group=self.series,
            calls=len(self.seconds[self.skip :]), wanted=self.calls, recorded_ms=self.recorded_ms,
            unrecorded_ms=self.unrecorded_ms, traces=tuple(FunctionTrace(**one) for one in traces),
            constant=tuple(sorted(_try_collect("constant operations", find_constant_operations, missing))),
            utilisation=self._utilisation, missing=tuple(missing),
        )  # fmt: skip


def find_optimizers() -> set[str]:
    """Names of Keras' optimizers that a program may have: those that exist, and what Keras calls others."""
    keras = sys.modules.get("keras")  # a program without it has none
    kinds = () if keras is None else (keras.optimizers.Optimizer,)
    return {*KERAS_OPTIMIZERS, *(one.name for one in gc.get_objects() if issubclass(type(one), kinds))}


def _try_collect(what: str, collect: Callable[[], Collection[T]], missing: list[str]) -> Collection[T]:
    """What a look into TensorFlow's own objects gives; a training must not end since they look different."""
    try:
        return collect()
    except Exception as error:
        missing.append(f"{what} are not known: {error!r}")
        return ()


def parse_folder(logdir: object) -> Path:
    """The path of a log directory. Raises: UserError for what is none."""
    if isinstance(logdir, str | os.PathLike) and isinstance(found := os.fspath(logdir), str) and "\0" not in found:
        return Path(found)
    raise UserError(f"logdir: got {reprlib.repr(logdir)}; must be the path of a folder")


@contextmanager
def capture(
    logdir: Path | str, steps: int = 10, skip: int = 3, host_level: int = 2, steps_per_call: int | None = 1
) -> Iterator[Capture]:
    """Record `steps` steps of a training loop after `skip` others: `with c.step(i):` around each.

    steps_per_call: training steps inside each, in a compiled loop or one after the other; None: as many as its training
    loop takes. host_level: 1 marks alone, 2 operations, 3 all that the runtime does.
    Raises: UserError for numbers out of RANGES, TraceError at the end when too few steps ran for any to be recorded.

    >>> import tensorflow as tf
    >>> from tempfile import TemporaryDirectory
    >>> x = tf.Variable(1.0)
    >>> with TemporaryDirectory() as logs, capture(logs, steps=2, skip=1) as window:
    ...     for number in range(4):
    ...         with window.step(number):
    ...             x = x.assign_add(1.0)
    >>> window.done, float(x)
    (True, 5.0)
    """
    window = Capture(parse_folder(logdir), steps, skip, host_level, turns=steps_per_call)
    try:
        yield window
    except BaseException:
        with suppress(TraceError):
            window.stop()
        raise
    window.stop()
    if not window.done:
        raise TraceError(
            f"{logdir}: nothing was recorded: {len(window.seconds)} steps ran, the first {skip} are skipped"
        )
