"""Replicas spread over the devices of one process, all at the same time: a stack on each, on a CPU several.

Nothing passes between stacks. A replica's bits depend on the size of its stack and on its slot, not on the device.
"""

import gc
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import ceil
from typing import Literal, TypeVar

import numpy as np
import tensorflow as tf

from tfperf.arrays import Indices, Int32Array, ReplicaIndices
from tfperf.errors import CardError
from tfperf.train.loop import Loop
from tfperf.train.stopping import ReplicaState

T = TypeVar("T")
SHARES = (0.75, 0.5, 0.25, 0.125, 0.0625)  # of a stack's slots that are left


def list_stack_devices(devices: Literal["all"] | int, stacks: int, fixed: bool = False) -> list[str | None]:
    """The device of each stack: the card's devices, or without a GPU `stacks` times the one CPU.

    fixed: there must be so many stacks, as many on each device, or nearly.
    """
    names = list_devices(devices)
    if fixed:
        return [names[i * len(names) // stacks] for i in range(stacks)]
    return [*names] if len(names) > 1 or "CPU" not in names[0] else [names[0]] * stacks


def list_devices(wanted: Literal["all"] | int) -> list[str]:
    """The visible GPUs, without one the logical CPUs, or the first `wanted` of them; CardError when there are fewer."""
    names = [d.name for d in tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")]
    if wanted == "all":
        return names
    if wanted > len(names):
        seen = f"TensorFlow sees {', '.join(names)}"
        raise CardError(f"engine.devices: got {wanted}, but {seen}; allowed: all, 1 to {len(names)}")
    return names[:wanted]


def run_parallel(calls: Sequence[Callable[[], T]], most: int | None = None) -> list[T]:
    """The results of calls that run at the same time, `most` of them, by default all; a single one runs in this thread.

    TensorFlow lets go of Python's lock while it computes. The error of the first call that failed is raised when all
    have ended.
    """
    if len(calls) < 2:
        return [call() for call in calls]
    with ThreadPoolExecutor(most or len(calls)) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]


class Shard:
    """A stack of replicas on a device: who sits in which slot, and their loop, once it is built."""

    def __init__(self, device: str | None, indices: ReplicaIndices) -> None:
        """`indices`: the replica in each slot."""
        self.device, self.indices = device, indices
        self.loop: Loop | None = None

    @property
    def size(self) -> int:
        """Slots of the stack."""
        return len(self.indices)

    def use_device(self) -> AbstractContextManager[None]:
        """Where variables, constants and operations of the shard belong; of this thread only."""
        placed: AbstractContextManager[None] = tf.device(self.device)
        return placed

    def close(self) -> None:
        """Free the memory of the stack."""
        if self.loop is not None:
            self.loop.close()
            self.loop = None
            gc.collect()


@dataclass(frozen=True)
class StackLayout:
    """How a device's replicas are cut into stacks: at the start, and when fewer are left.

    `side` stacks take their steps at the same time, the others after them.
    """

    replicas: int
    stacks: int = 1
    side: int = 1

    @property
    def whole(self) -> int:
        """Slots of the largest stack at the start."""
        return ceil(self.replicas / self.stacks)

    @property
    def rounds(self) -> int:
        """How many stacks take their steps one after the other."""
        return ceil(self.stacks / self.side)

    def list_known_sizes(self) -> list[int]:
        """Slots of all stacks where some are left out and the others keep their size; as many as keep all sides busy.

        Stacks of that size have a program already.
        """
        step = self.side * self.whole
        return [slots for slots in range(step, self.replicas, step)]

    def list_new_sizes(self) -> list[int]:
        """Slots of all stacks where one for each side is left, of a size that has no program yet."""
        sizes = {ceil(share * self.whole) for share in SHARES} - {self.whole}
        return sorted(slots for slots in {size * self.side for size in sizes} if slots < self.replicas)

    def count_stacks(self, slots: int) -> int:
        """Stacks for so many slots."""
        return slots // self.whole if slots % (self.side * self.whole) == 0 else min(self.side, slots)


class DeviceStacks:
    """The stacks of one device. Replicas change places among them when some stacks are left out."""

    def __init__(self, device: str | None, layout: StackLayout, stacks: Sequence[ReplicaIndices]) -> None:
        """`stacks`: the replica in each slot of each stack."""
        self.device, self.layout = device, layout
        self.shards = [Shard(device, indices) for indices in stacks]

    @property
    def indices(self) -> ReplicaIndices:
        """The replica in each slot."""
        return np.concatenate([shard.indices for shard in self.shards])

    @property
    def size(self) -> int:
        """Slots of all stacks."""
        return sum(shard.size for shard in self.shards)

    def select_slots(self, state: Int32Array, size: int) -> Indices:
        """The slots that stay where `size` are left, by the state of each; ValueError when more replicas run.

        Where room is left, quarantined replicas keep a slot before stopped ones do: as long as they would have run,
        the others sit where they would sit without the failure, and a product's bits may depend on that.
        """
        order = {ReplicaState.RUNNING: 0, ReplicaState.QUARANTINED: 1, ReplicaState.STOPPED: 2}
        ranks = np.array([order[ReplicaState(s)] for s in state])
        if np.sum(ranks == 0) > size:
            raise ValueError(f"{np.sum(ranks == 0)} replicas run; got {size} slots")
        return np.sort(np.argsort(ranks, kind="stable")[:size])

    def keep(self, slots: Indices) -> None:
        """Go on with these slots alone; the old stacks are freed first, since both may not fit the memory."""
        for shard in self.shards:
            shard.close()
        indices = self.indices[slots]
        self.shards = [
            Shard(self.device, cut_stack)
            for cut_stack in split_indices(indices, self.layout.count_stacks(len(indices)))
        ]


def split_indices(indices: ReplicaIndices, count: int) -> list[ReplicaIndices]:
    """Neighbouring replicas in `count` stacks of nearly the same size, cut as chunks of a run are."""
    return np.split(indices, [len(indices) * i // count for i in range(1, count)])


def spread(
    indices: ReplicaIndices, devices: Sequence[str | None], replicas: int, slots: Sequence[int] | None = None,
    threads: int = 0,
) -> list[DeviceStacks]:  # fmt: skip
    """Stacks of the replicas on the devices, of which no more are used than there are replicas.

    devices: of each stack, those of a device side by side; named several times, one device has several. replicas: how
    many there were at the start. slots: of each stack, where that is known already. threads: how many stacks of a
    device take their steps at the same time; 0: all. A device alone stays where TensorFlow puts things: on the first.
    """
    if len(set(devices)) == 1:
        count = min(replicas, len(devices))
        layout = StackLayout(replicas, count, min(count, threads or count))
        cut = (
            split_indices(indices, min(count, len(indices)))
            if slots is None
            else np.split(indices, np.cumsum(slots)[:-1])
        )
        return [DeviceStacks(None if count == 1 else devices[0], layout, cut)]
    starts = split_indices(np.arange(replicas), min(replicas, len(devices)))
    count = min(len(indices), len(devices))
    cut = split_indices(indices, count) if slots is None else np.split(indices, np.cumsum(slots)[:-1])
    if count == 1:
        return [DeviceStacks(None, StackLayout(len(starts[0])), cut)]
    found = []
    for name in dict.fromkeys(devices):
        held = [i for i in range(count) if devices[i] == name]
        there = sum(len(start) for start, device in zip(starts, devices, strict=False) if device == name)
        if held:
            layout = StackLayout(there, len(held), min(len(held), threads or len(held)))
            found.append(DeviceStacks(name, layout, [cut[i] for i in held]))
    return found
