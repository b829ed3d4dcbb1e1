"""TensorFlow's import as quick as it can be had."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tfperf.measure.quiet import native_logs_dropped


def is_loaded() -> bool:
    """Whether TensorFlow was imported before."""
    return "tensorflow" in sys.modules


@contextmanager
def without_collector() -> Iterator[None]:
    """Python's collector of garbage rests while libraries are loaded, whose objects stay.

    Else it looks through all of them, again and again as they grow in number: a quarter of TensorFlow's import.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@contextmanager
def tensorflow_loading() -> Iterator[None]:
    """Import TensorFlow inside, without its chatter; what is there afterwards is frozen (see thawed)."""
    first = not is_loaded()
    with native_logs_dropped(), without_collector():
        yield
    if first:
        gc.freeze()


@contextmanager
def thawed() -> Iterator[None]:
    """At the end the collector looks again at all that was frozen inside: what a caller drops later is freed."""
    before = gc.get_freeze_count()
    try:
        yield
    finally:
        if not before:
            gc.unfreeze()
