"""What a cheat is: a part of an engine is replaced, and trains as the honest one does."""

from collections.abc import Callable
from contextlib import contextmanager
from typing import NamedTuple

import pytest
import tensorflow as tf

from tfperf.place import towers
from tfperf.place.devices import HOST

FIRST, SECOND = (HOST.replace("CPU:0", f"CPU:{k}") for k in (1, 2))
CLIPPED, MIRRORED = "train.optimizer.global_clipnorm=0.01", "placement.engine=mirrored"


class Cheat(NamedTuple):
    """What is replaced in an engine of these overrides, and what a fault must say of it."""

    replace: Callable[[pytest.MonkeyPatch], None]
    overrides: tuple[str, ...]
    fault: str
    kind: str


CHEATS: dict[str, Cheat] = {}


def cheat(kind, *overrides, fault):
    """Enter a cheat under its function's name."""

    def enter(replace):
        CHEATS[replace.__name__] = Cheat(replace, overrides, fault, kind)
        return replace

    return enter


@contextmanager
def somewhere(device, scope):
    """On a device, under a name of one's own."""
    with tf.device(device), tf.name_scope(f"{scope}/"):
        yield


def one():
    """A factor of one that no optimizer of graphs can know."""
    return tf.cast(tf.timestamp() > 0.0, tf.float32)


def beside_decoy(gradient, rate):
    """A rate to which a small operation on a gradient adds nothing."""
    return tf.convert_to_tensor(rate) + tf.reduce_max(gradient[:2] * 2.0) * (one() - 1.0)


def change_reads(patch, change):
    """Have every value that a device reads of a variable changed by a function of it and the device."""
    honest = towers._read_value
    patch.setattr(towers, "_read_value", lambda variable, device: change(honest(variable, device), device))
