"""TensorFlow's import as quick as it can be had."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tfperf.measure.quiet import drop_native_logs


def is_loaded() -> bool:
    """Whether TensorFlow was imported before."""
    return "tensorflow" in sys.modules


@contextmanager
def pause_collector() -> Iterator[None]:
    """Have Python's collector of garbage rest while many objects are made that stay, or go together.

    Else it looks through all of them, again and again as they grow in number: a quarter of TensorFlow's import, a fifth
    of a picture.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@contextmanager
def speed_up_import() -> Iterator[None]:
    """Import TensorFlow inside, without its chatter; what is there afterwards is frozen (see unfreeze_at_end)."""
    first = not is_loaded()
    with drop_native_logs(), pause_collector():
        yield
    if first:
        gc.freeze()


@contextmanager
def unfreeze_at_end() -> Iterator[None]:
    """At the end the collector looks again at all that was frozen inside: what a caller drops later is freed."""
    before = gc.get_freeze_count()
    try:
        yield
    finally:
        if not before:
            gc.unfreeze()
