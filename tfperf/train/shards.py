"""Replicas spread over the devices of one process: each trains a stack of its own, all at the same time.

Nothing passes between devices. A replica's bits depend on the size of its stack and on its slot, not on the device.
"""

import gc
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Literal, TypeVar

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfperf.errors import CardError
from tfperf.runcard.engine import Engine
from tfperf.train.loop import Loop
from tfperf.train.stopping import State

T = TypeVar("T")


def stack_places(engine: Engine, stacks: int) -> list[str | None]:
    """The device of each stack: the card's devices, or without a GPU `stacks` times the one CPU."""
    names = device_names(engine.devices)
    return [*names] if len(names) > 1 or "CPU" not in names[0] else [names[0]] * stacks


def device_names(wanted: Literal["all"] | int) -> list[str]:
    """The visible GPUs, without one the logical CPUs, or the first `wanted` of them; CardError when there are fewer."""
    names = [d.name for d in tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")]
    if wanted == "all":
        return names
    if wanted > len(names):
        seen = f"TensorFlow sees {', '.join(names)}"
        raise CardError(f"engine.devices: got {wanted}, but {seen}; allowed: all, 1 to {len(names)}")
    return names[:wanted]


def at_once(calls: Sequence[Callable[[], T]]) -> list[T]:
    """The results of calls that run at the same time, each in a thread of its own; a single one runs in this thread.

    TensorFlow lets go of Python's lock while it computes. The error of the first call that failed is raised when all
    have ended.
    """
    if len(calls) < 2:
        return [call() for call in calls]
    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]


class Shard:
    """One device's replicas: who sits in which slot, and their loop, once it is built."""

    def __init__(self, device: str | None, rows: NDArray[np.int64], replicas: int) -> None:
        """`rows`: the replica in each slot; `replicas`: how many there were at the start of the training."""
        self.device, self.rows, self.replicas = device, rows, replicas
        self.loop: Loop | None = None

    @property
    def size(self) -> int:
        """Slots of the stack."""
        return len(self.rows)

    def place(self) -> AbstractContextManager[None]:
        """Where variables, constants and operations of the shard belong; of this thread only."""
        placed: AbstractContextManager[None] = tf.device(self.device)
        return placed

    def survivors(self, state: NDArray[np.int32], size: int) -> NDArray[np.intp]:
        """The slots that stay in a stack of `size`, by the state of each; ValueError when more replicas run.

        Where room is left, quarantined replicas keep a slot before stopped ones do: as long as they would have run,
        the others sit where they would sit without the failure, and a product's bits may depend on that.
        """
        order = {State.RUNNING: 0, State.QUARANTINED: 1, State.STOPPED: 2}
        ranks = np.array([order[State(s)] for s in state])
        if np.sum(ranks == 0) > size:
            raise ValueError(f"{np.sum(ranks == 0)} replicas run; got {size} slots")
        return np.sort(np.argsort(ranks, kind="stable")[:size])

    def keep(self, slots: NDArray[np.intp]) -> None:
        """Go on with these slots alone; the old stack is freed first, since both together may not fit the memory."""
        self.close()
        self.rows = self.rows[slots]

    def close(self) -> None:
        """Free the memory of the stack."""
        if self.loop is not None:
            self.loop.close()
            self.loop = None
            gc.collect()


def parts(rows: NDArray[np.int64], count: int) -> list[NDArray[np.int64]]:
    """Neighbouring rows in `count` parts of nearly the same size, cut as chunks of a run are."""
    return np.split(rows, [len(rows) * i // count for i in range(1, count)])


def spread(rows: NDArray[np.int64], devices: Sequence[str | None], replicas: int) -> list[Shard]:
    """Shards of the rows on the devices, of which no more are used than there are rows.

    A shard alone stays where TensorFlow puts it: on the first device.
    """
    count = max(1, min(len(rows), len(devices)))
    starts = parts(np.arange(replicas), max(1, min(replicas, len(devices))))
    places = devices if count > 1 else [None]
    return [
        Shard(device, part, len(start)) for device, part, start in zip(places, parts(rows, count), starts, strict=False)
    ]
