"""A part of a run as it begins: threads, what of the machine bits depend on, checkpoints. Imports TensorFlow."""

from collections.abc import Callable
from typing import Any, Protocol

import tensorflow as tf

import tfperf
from tfperf.errors import RunDirectoryError
from tfperf.measure.environment import available_cores, cpu_model
from tfperf.results.contents import CHECKPOINTS
from tfperf.results.rundir import RunDirectory
from tfperf.results.state import Part
from tfperf.train.checkpoint import Checkpoints

Say = Callable[[str], None]


def use_threads(wanted: int, fixed: bool = False) -> int:
    """Give TensorFlow's operations `wanted` threads; returns how many they have.

    A TensorFlow that already runs keeps its number: RunDirectoryError when that is not the wanted one and it is fixed.
    """
    try:
        tf.config.threading.set_intra_op_parallelism_threads(wanted)
        return wanted
    except RuntimeError:
        # 0, the default, stands for one per core
        now = tf.config.threading.get_intra_op_parallelism_threads() or available_cores()
        if fixed and now != wanted:
            raise RunDirectoryError(
                f"engine.threads: {wanted} are wanted, but TensorFlow already runs with {now} in this process; "
                "call tfperf before any other TensorFlow code, or in a process of its own"
            ) from None
        return now


def machine(threads: int) -> dict[str, Any]:
    """What bits can depend on beside the choices; starts TensorFlow."""
    return host() | {"threads": threads, "devices": [d.name for d in tf.config.list_logical_devices()]}


def host() -> dict[str, Any]:
    """What of it is known before TensorFlow starts."""
    return {"cpu": cpu_model(), "tensorflow": tf.__version__, "tfperf": tfperf.__version__}


def warn_of_change(part: Part[Any], here: dict[str, Any], say: Say) -> None:
    """Say what of the machine is not as when the part began."""
    for key in (k for k in here if part.machine.get(k) != here[k]):
        say(f"warning: {key} was {part.machine.get(key)}, is {here[key]}: bits may differ from an uninterrupted run")


def keep_checkpoints(run: RunDirectory[Any], part: Part[Any]) -> Checkpoints:
    """The checkpoints of a part."""
    return Checkpoints(run.path / CHECKPOINTS, run.begun.identity, part.key)


class Resumable(Protocol):
    """A training that goes on from its checkpoints."""

    def resume(self) -> tuple[int, list[str]]:
        """Take up the newest one; its step (0: there is none) and warnings."""


def resume(run: RunDirectory[Any], part: Part[Any], trainer: Resumable, say: Say) -> None:
    """Have a training go on where it was, say so, and note it."""
    step, warnings = trainer.resume()
    for warning in warnings:
        say(f"warning: {warning}")
    if step:
        say(f"going on from step {step}")
        part.resumed_from_steps.append(step)
        run.save_state()
