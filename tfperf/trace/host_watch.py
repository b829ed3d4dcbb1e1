"""What Python does while steps are recorded: the line that the training's thread is at, and garbage collection.

Both become events of the profile itself, and so have its clock.
"""

import gc
import os
import random
import re
import sys
import sysconfig
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import accumulate, chain, islice, repeat
from operator import attrgetter, itemgetter
from pathlib import Path
from types import FrameType
from typing import Any, Literal, NamedTuple

from tfperf.scopes import GARBAGE, IN_TENSORFLOW, OF_LIBRARY, SAMPLE, WRITING

INTERVAL = 0.003  # seconds between looks at the thread, on average: at random, for steps are regular
SWITCH = 0.0001  # seconds after which Python code lets the sampler look; Python's own are fifty times as long
RUNNING = 0.1  # share of the time between looks for which a thread uses a processor when it is at work
FEWEST, ALONE = 3, 0.2  # looks after which Python may be asked so often: at most a share found other threads at work
LIBRARIES = tuple(
    f"{Path(one).resolve()}{os.sep}"
    for one in (*map(sysconfig.get_path, ("stdlib", "purelib", "platlib")), str(Path(__file__).parents[1]))
)
SCRIPTS = f"{Path(sysconfig.get_path('scripts')).resolve()}{os.sep}"  # they start programs that are installed
# files of TensorFlow and Keras that start operations, and those that write what a program keeps
STARTING = re.compile(r"/(tensorflow/python|keras/src/(backend|ops|layers|losses|metrics|optimizers|random))/")
WRITERS = re.compile(
    r"/(tensorboard|tensorflow/python/(checkpoint|saved_model|summary)|keras/src/saving)/|summary_ops"
    r"|/tensorflow/python/training/(saver|saving|checkpoint)"
)
PLACE = attrgetter("f_code.co_filename", "f_lineno", "f_code.co_name")  # of a frame
LOOP = "keras/src/backend/tensorflow/trainer.py"  # what Keras' own loop does for itself is no line of the program's


class Place(NamedTuple):
    """The line of a frame."""

    file: str
    line: int | None
    function: str


class HostWatch:
    """Samples the thread that makes it, and marks garbage collections of any thread, from `start` to `stop`.

    Python's threads take turns more often meanwhile, but where others of the program are at work in Python: how they
    take turns with the training is part of what is measured.

    seconds: what taking the samples itself has taken.
    """

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.seconds, self.samples = 0.0, 0
        self._ended = threading.Event()
        self._sampler = threading.Thread(target=self._sample, name="tfperf sampler", daemon=True)
        self._collection: Any = None
        self._switch = self._short = sys.getswitchinterval()
        self._busy = 0
        self._places: dict[int, tuple[int, int]] = {}
        self._used: dict[int, float] = {}  # seconds of processors, by thread

    def start(self) -> None:
        """Begin to watch."""
        gc.callbacks.append(self._mark_collection)
        self._sampler.start()

    def stop(self) -> None:
        """End it; Python is left as it was."""
        self._ended.set()
        self._sampler.join()
        if self._mark_collection in gc.callbacks:
            gc.callbacks.remove(self._mark_collection)
        self._switch_as_before()

    def _sample(self) -> None:
        import tensorflow as tf

        draws = random.Random(0)
        while not self._ended.wait(draws.uniform(0.5, 1.5) * INTERVAL):
            begin = time.thread_time()
            places = read_places(self.thread)
            if not places:
                return
            self._choose_switch(_read_innermost({self.thread, threading.get_ident()}))
            with tf.profiler.experimental.Trace(f"{SAMPLE}{describe_places(places)}"):
                self.samples += 1
            self.seconds += time.thread_time() - begin

    def _choose_switch(self, others: Mapping[int, tuple[int, str, int]]) -> None:
        """Whether threads take turns more often: of the others, one that waits in a library stays at its place."""
        before = self._places
        self._places = {thread: (frame, at) for thread, (frame, _, at) in others.items()}
        own = any(find_kind(file) == "own" and self._has_run(thread) for thread, (_, file, _) in others.items())
        self._busy += own or any(before.get(thread, place) != place for thread, place in self._places.items())
        if self._busy > ALONE * self.samples:
            self._switch_as_before()
        elif self.samples >= FEWEST and sys.getswitchinterval() == self._switch:
            sys.setswitchinterval(min(SWITCH, self._switch))
            self._short = sys.getswitchinterval()  # in whole microseconds

    def _has_run(self, thread: int) -> bool:
        """Whether a thread has used a processor since the last look at it; where the system does not tell, it has."""
        numbers = {one.ident: one.native_id for one in threading.enumerate()}
        try:  # not by its clock: to ask for that of a thread that has just ended may crash
            used = int(Path(f"/proc/self/task/{numbers.get(thread)}/schedstat").read_text().split()[0]) / 1e9
        except (OSError, ValueError, IndexError):
            return True
        before, self._used[thread] = self._used.get(thread, used), used
        return used - before > RUNNING * INTERVAL

    def _switch_as_before(self) -> None:
        if sys.getswitchinterval() == self._short:  # else the program has set another
            sys.setswitchinterval(self._switch)

    def _mark_collection(self, moment: str, details: dict[str, Any]) -> None:
        import tensorflow as tf

        if moment == "start":
            self._collection = tf.profiler.experimental.Trace(f"{GARBAGE}generation {details.get('generation')}")
            self._collection.__enter__()
        elif self._collection is not None:
            self._collection.__exit__(None, None, None)
            self._collection = None


def read_places(thread: int | FrameType) -> list[Place]:
    """Where a thread is, or a frame of the own thread, with all callers, innermost first; empty: it has ended.

    In one call, during which no other thread of Python's runs: to go on from a frame to its caller once the frame's
    thread has run again may end the process (https://github.com/python/cpython/issues/99110, seen with Python 3.11.7).

    >>> read_places(threading.get_ident())[-1].function, read_places(0)
    ('<module>', [])
    """
    frames = (
        [thread]
        if isinstance(thread, FrameType)
        else islice(map(itemgetter(thread), iter(sys._current_frames, None)), 1)
    )
    found: list[tuple[Any, ...]] = []
    collects = gc.isenabled()
    gc.disable()  # a collection would run Python code, and other threads
    try:
        with suppress(AttributeError, KeyError):  # beyond the outermost frame; no such thread
            found.extend(map(PLACE, accumulate(chain(frames, repeat("f_back")), getattr)))
    finally:
        if collects:
            gc.enable()
    return [Place(*one) for one in found]


def _read_innermost(known: Collection[int]) -> dict[int, tuple[int, str, int]]:
    """Of all threads but the known ones the innermost frame: its id, its file, and the instruction that it is at."""
    frames = sys._current_frames()
    read = map(attrgetter("f_code.co_filename", "f_lasti"), frames.values())
    found = zip(list(frames), list(map(id, frames.values())), list(read), strict=True)
    return {thread: (frame, *place) for thread, frame, place in found if thread not in known}


def describe_places(places: Sequence[Place]) -> str:
    """The line of the program's that a thread is at, with its function.

    In the loop of Keras or of tfperf, and where the program has no line at all, that of the library, which is said; so
    is a line that has TensorFlow start operations.

    >>> describe_places(read_places(sys._getframe())).endswith("in <module>")
    True
    """
    own = next((i for i, one in enumerate(places) if find_kind(one.file) != "library"), None)
    own = _find_installed(places) if own is None else own
    chosen = places[own or 0]
    line = f"{shorten_path(chosen.file)}:{chosen.line} in {chosen.function}"
    if own is None or find_kind(chosen.file) == "loop":
        return f"{line}{OF_LIBRARY}"
    return f"{line}{_describe_library(places[:own])}"


def _find_installed(places: Sequence[Place]) -> int | None:
    """The innermost place in a program that is installed among libraries: in the package that calls all others."""
    packages = [_find_package(one.file) for one in places]
    outermost = next((one for one in reversed(packages) if one), "")
    return packages.index(outermost) if outermost else None


@cache
def _find_package(file: str) -> str:
    """The package of a file among libraries that were installed; empty: of others."""
    path = str(Path(file).resolve())
    root = next((one for one in LIBRARIES[1:3] if path.startswith(one)), None)
    return path.removeprefix(root).split(os.sep)[0] if root else ""


def _describe_library(below: Sequence[Place]) -> str:
    """Whether a thread is in TensorFlow, below a line of the program's, and whether that writes what it keeps."""
    files = [one.file.replace("\\", "/") for one in below]
    if any(map(WRITERS.search, files)):
        return WRITING
    return IN_TENSORFLOW if files and STARTING.search(files[0]) else ""


@cache
def find_kind(file: str) -> Literal["own", "loop", "library"]:
    """Whose a file is: the program's, of a library's training loop, or of any other of a library."""
    path = str(Path(file).resolve())
    if path.replace("\\", "/").endswith(LOOP) or path.startswith(LIBRARIES[-1]):
        return "loop"
    return "library" if file.startswith("<frozen") or path.startswith((*LIBRARIES, SCRIPTS)) else "own"


@cache
def shorten_path(file: str) -> str:
    """A file of a library by its path in the library, one below the current folder by its path from there."""
    path = Path(file)
    for root in (*map(Path, LIBRARIES[1:3]), Path(LIBRARIES[3]).parent, Path.cwd(), Path(LIBRARIES[0])):
        try:
            return str(path.resolve().relative_to(root))
        except (ValueError, OSError):
            continue
    return file
