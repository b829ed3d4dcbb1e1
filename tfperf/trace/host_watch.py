"""What Python does while steps are recorded: the line that the training's thread is at, and garbage collection.

Both become events of the profile itself, and so have its clock.
"""

import gc
import os
import sys
import sysconfig
import threading
import time
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from tfperf.scopes import GARBAGE, OF_LIBRARY, SAMPLE

INTERVAL = 0.004  # seconds between looks at the thread
SWITCH = 0.0005  # seconds after which Python code lets the sampler look; Python's own are ten times as long
LIBRARIES = tuple(
    f"{Path(one).resolve()}{os.sep}"
    for one in (*map(sysconfig.get_path, ("stdlib", "purelib", "platlib")), str(Path(__file__).parents[1]))
)
LOOP = "keras/src/backend/tensorflow/trainer.py"  # what Keras' own loop does for itself is no line of the program's


class HostWatch:
    """Samples the thread that makes it, and marks garbage collections, from `start` to `stop`.

    seconds: what taking the samples itself has taken.
    """

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.seconds, self.samples = 0.0, 0
        self._ended = threading.Event()
        self._sampler = threading.Thread(target=self._sample, name="tfperf sampler", daemon=True)
        self._collection: Any = None
        self._switch = sys.getswitchinterval()

    def start(self) -> None:
        """Begin to watch."""
        sys.setswitchinterval(min(SWITCH, self._switch))
        gc.callbacks.append(self._mark_collection)
        self._sampler.start()

    def stop(self) -> None:
        """End it; Python is left as it was."""
        self._ended.set()
        self._sampler.join()
        if self._mark_collection in gc.callbacks:
            gc.callbacks.remove(self._mark_collection)
        if sys.getswitchinterval() == min(SWITCH, self._switch):  # else the program has set another
            sys.setswitchinterval(self._switch)

    def _sample(self) -> None:
        import tensorflow as tf

        while not self._ended.wait(INTERVAL):
            begin = time.thread_time()
            frame = sys._current_frames().get(self.thread)
            if frame is None:
                return
            with tf.profiler.experimental.Trace(f"{SAMPLE}{describe_frame(frame)}"):
                self.samples += 1
            self.seconds += time.thread_time() - begin

    def _mark_collection(self, moment: str, details: dict[str, Any]) -> None:
        import tensorflow as tf

        if threading.get_ident() != self.thread:
            return
        if moment == "start":
            self._collection = tf.profiler.experimental.Trace(f"{GARBAGE}generation {details.get('generation')}")
            self._collection.__enter__()
        elif self._collection is not None:
            self._collection.__exit__(None, None, None)
            self._collection = None


def describe_frame(frame: FrameType) -> str:
    """The line of the program's that a thread is at, with its function.

    In the loop of Keras or of tfperf, and where the program has no line at all, that of the library, which is said.

    >>> describe_frame(sys._getframe()).endswith("in <module>")
    True
    """
    one: FrameType | None = frame
    while one is not None and _find_kind(one.f_code.co_filename) == "library":
        one = one.f_back
    chosen = frame if one is None else one
    line = f"{_shorten(chosen.f_code.co_filename)}:{chosen.f_lineno} in {chosen.f_code.co_name}"
    return line if one is not None and _find_kind(one.f_code.co_filename) == "own" else f"{line}{OF_LIBRARY}"


@cache
def _find_kind(file: str) -> Literal["own", "loop", "library"]:
    """Whose a file is: the program's, of a library's training loop, or of any other of a library."""
    path = str(Path(file).resolve())
    if path.replace("\\", "/").endswith(LOOP) or path.startswith(LIBRARIES[-1]):
        return "loop"
    return "library" if file.startswith("<frozen") or path.startswith(LIBRARIES) else "own"


@cache
def _shorten(file: str) -> str:
    """A file of a library by its path in the library, one below the current folder by its path from there."""
    path = Path(file)
    for root in (*map(Path, LIBRARIES[1:3]), Path(LIBRARIES[3]).parent, Path.cwd(), Path(LIBRARIES[0])):
        try:
            return str(path.resolve().relative_to(root))
        except (ValueError, OSError):
            continue
    return file
