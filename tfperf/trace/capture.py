"""A window of steps recorded by TensorFlow's profiler, with the marks by which its viewer and tfperf know them.

Beside the profile lies what only the program knows: its optimizers' and layers' names, and how long steps take that
nobody records.
"""

import os
import reprlib
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from tfperf.errors import StorageError, TraceError, UserError
from tfperf.measure.environment import count_cores, read_cpu_model
from tfperf.trace.call_times import CallTimes, measure_calls
from tfperf.trace.functions import (
    Samples,
    SeenFunctions,
    find_constant_operations,
    find_optimizers,
    list_functions,
    list_seen,
    list_traces,
    sample_untrained,
)
from tfperf.trace.half_precision import find_half_operations
from tfperf.trace.host_watch import HostWatch
from tfperf.trace.live_graphs import list_graphs
from tfperf.trace.methods import MethodMarks
from tfperf.trace.noted_work import count_threads, find_noted_work
from tfperf.trace.notes import FunctionTrace, HalfOperation, NotedWork, Notes, ProgramKind, write_notes
from tfperf.trace.operations import has_work
from tfperf.trace.planes import read_space
from tfperf.trace.python_functions import list_python_functions
from tfperf.trace.rescue import Rescue
from tfperf.trace.tables import find_table_work

STEP = "step"  # name of the marks
SESSIONS = "plugins/profile/*"
MOST = 100_000_000
RANGES = {"steps": (1, MOST), "skip": (0, MOST), "host_level": (1, 3), "steps_per_call": (1, MOST)}
NOTHING_RAN = "nothing ran in the window, or so little that only host_level=3 tells of it"
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
    usual_turns: int | None = None
    program: ProgramKind = "loop"
    series: str = ""  # the `group` of Notes
    calls_per_epoch: float | None = None
    own_train_function: bool = False
    read_utilisation: Callable[[], tuple[float | None, ...]] = tuple  # of each GPU, by its driver
    seconds: list[float] = field(default_factory=list)  # of each call, recorded ones included
    begins: list[float] = field(default_factory=list)  # when each began, seconds
    recording: bool = False
    done: bool = False
    failed: str = ""  # why a harmless recording has none
    _before: set[Path] = field(default_factory=set)  # sessions that were there
    _watch: HostWatch | None = None
    _rescue: Rescue | None = None
    _methods: MethodMarks = field(default_factory=MethodMarks)
    _functions: list[Any] | None = None  # that are there before the window
    _seen: SeenFunctions = field(default_factory=SeenFunctions)
    _untrained: Samples | None = None  # as they are then
    _utilisation: tuple[float | None, ...] = ()  # when the recording ended
    _notes: Notes | None = None  # as they were written
    active: ClassVar[bool] = False  # whether any is being recorded

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

        if not self.begins and self.skip and not self.done:
            # not when the window begins: buffers would fill up meanwhile
            self._functions = list(_try_collect("functions", list_functions, []))
            self._untrained = dict(_try_collect("variables", lambda: sample_untrained().items(), []))
        if len(self.seconds) == self.skip and not self.done:
            self._start()
        start = time.perf_counter()
        self.begins.append(start)
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

        self._seen, self._before = list_seen(self._functions), set(self.logdir.glob(SESSIONS))
        self._functions = None
        options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=self.host_level)
        try:
            self.logdir.mkdir(parents=True, exist_ok=True)
            tf.profiler.experimental.start(str(self.logdir), options)
        except tf.errors.AlreadyExistsError:
            raise TraceError("another profile is being recorded in this process; only one can be at a time") from None
        except OSError as error:
            raise TraceError(f"{self.logdir}: {error.strerror}") from None
        self.recording = Capture.active = True
        self._watch, self._rescue = HostWatch(), Rescue(self._save)
        self._watch.start()
        self._rescue.start()
        if self.program == "loop":
            self._methods.start()

    def _save(self) -> None:
        """End the recording where the program ends; nothing can be said any more of what goes wrong."""
        with suppress(TraceError):
            self.stop()

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
        self.recording, self.done, Capture.active = False, True, False
        self._methods.stop()
        self._utilisation = self.read_utilisation()
        if self._watch is not None and self._rescue is not None:
            self._watch.stop()
            self._rescue.stop()
        try:
            tf.profiler.experimental.stop()
            spaces = [read_space(file) for one in self._list_new_sessions() for file in one.glob("*.xplane.pb")]
            self._notes = self.make_notes(spaces)
            for folder in self._list_new_sessions():
                write_notes(folder, self._notes)
        except (tf.errors.OpError, StorageError) as error:
            for folder in self._list_new_sessions():
                shutil.rmtree(folder, ignore_errors=True)
            raise TraceError(f"{self.logdir}: the profile cannot be written: {error}") from None
        if not any(map(has_work, spaces)):
            raise TraceError(f"{self.logdir}: the profile holds no operation: {NOTHING_RAN}")

    def _list_new_sessions(self) -> list[Path]:
        """Sessions that this recording made."""
        return sorted(set(self.logdir.glob(SESSIONS)) - self._before)

    def finish(self) -> None:
        """End the recording, and note how long calls took that came after it. Raises: TraceError, as `stop` does."""
        self.stop()
        if self._notes is None:
            return
        now = replace(self._notes, **vars(self.times))
        if now == self._notes:
            return
        self._notes = now
        try:
            for folder in self._list_new_sessions():
                write_notes(folder, self._notes)
        except StorageError as error:
            raise TraceError(f"{self.logdir}: the profile's notes cannot be written: {error}") from None

    @property
    def times(self) -> CallTimes:
        """How long calls took up to now."""
        return measure_calls(self.begins, self.skip, self.calls, self.calls_per_epoch)

    def make_notes(self, spaces: Collection[Any] = ()) -> Notes:
        """What lies beside the profile, of which these are the messages."""
        missing: list[str] = []
        optimizers = tuple(sorted(self.optimizers or find_optimizers()))
        graphs = _try_collect("graphs", list_graphs, missing)
        traces = _try_collect("causes of traces", lambda: list_traces(self._seen), missing)
        half = _try_collect("operations of half precision", lambda: find_half_operations(spaces, graphs), missing)
        work = _try_collect("work", lambda: find_noted_work(spaces, graphs), missing)
        constant = _try_collect(
            "constant operations", lambda: find_constant_operations(graphs, self._untrained), missing
        )  # fmt: skip
        return Notes(
            own=True, program=self.program, optimizers=optimizers, loops=self.loops,
            forward=None if self.forward is None else tuple(sorted(self.forward)), turns=self.turns, group=self.series,
            usual_turns=self.usual_turns, calls_per_epoch=self.calls_per_epoch, calls=len(self.seconds[self.skip :]),
            own_train_function=self.own_train_function, wanted=self.calls, **vars(self.times),
            traces=tuple(FunctionTrace(**one) for one in traces),
            constant=tuple(sorted(constant)),
            table_updates=tuple(_try_collect("tables", lambda: find_table_work(optimizers, graphs), missing)),
            python_functions=tuple(
                _try_collect("Python functions", lambda: list(list_python_functions(graphs)), missing)
            ),
            half=tuple(HalfOperation(**one) for one in half),
            cores=count_cores(), cpu=read_cpu_model(), threads=count_threads(),
            work=tuple(NotedWork(**one) for one in work),
            utilisation=self._utilisation, missing=tuple(missing),
        )  # fmt: skip


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
    logdir: Path | str, steps: int = 10, skip: int = 3, host_level: int = 2, steps_per_call: int | None = 1,
    group: str = "",
) -> Iterator[Capture]:  # fmt: skip
    """Record `steps` steps of a training loop after `skip` others: `with c.step(i):` around each.

    steps_per_call: training steps inside each, in a compiled loop or one after the other; None: as many as its training
    loop takes. host_level: 1 marks alone, 2 operations, 3 all that the runtime does. group: a name that captures of one
    program have in common, each best from a process of its own: they are read together, and tell how large chance is.
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
    window = Capture(parse_folder(logdir), steps, skip, host_level, turns=steps_per_call, series=group)
    try:
        yield window
    except BaseException:
        with suppress(TraceError):
            window.finish()
        raise
    window.finish()
    if not window.done:
        raise TraceError(
            f"{logdir}: nothing was recorded: {len(window.seconds)} steps ran, the first {skip} are skipped"
        )
