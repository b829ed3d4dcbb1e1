"""Batches a second of a pipeline some of whose stages are changed, from what each stage costs."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class StageLoad:
    """What a stage does for a batch, and how."""

    cpu_seconds: float
    wait_seconds: float  # without a core
    calls: float | None  # at most side by side, in the pool; None: one after the other, in the thread that asks for it
    is_ahead: bool = False  # a prefetch: a thread of its own fills its buffer
    inputs: tuple[int, ...] = ()  # positions

    @property
    def seconds(self) -> float:
        """Of all its calls for a batch, one after the other."""
        return self.cpu_seconds + self.wait_seconds


def compute_most_rate(loads: Sequence[StageLoad], free_cores: float, threads: float) -> float:
    """Batches/s that cores, pool, parallel calls and threads allow at most; infinite where nothing costs time.

    Stages in a row that are neither parallel nor ahead run in one thread, that of the stage that asks them, so their
    times add up; a parallel stage makes calls / seconds; all calls share the threads of the pool, and all the cores.

    >>> read, decode = StageLoad(0.01, 0.0, None), StageLoad(0.0, 0.02, 2.0, inputs=(0,))
    >>> compute_most_rate([read, decode, StageLoad(0.0, 0.0, None, True, (1,))], free_cores=2.0, threads=8.0)
    100.0
    """
    busy = [sum(one.cpu_seconds for one in loads) / free_cores]
    parallel = [one for one in loads if one.calls is not None]
    busy += [one.seconds / min(one.calls or 1.0, threads) for one in parallel]
    busy.append(sum(one.seconds for one in parallel) / threads)
    busy += list_thread_seconds(loads)
    most = max(busy)
    return 1 / most if most else float("inf")


def list_thread_seconds(loads: Sequence[StageLoad]) -> list[float]:
    """Seconds for a batch of each thread that runs sequential stages; the first is that of who takes the batches."""
    threads = find_threads(loads)
    seconds = [0.0] * (1 + max(threads, default=0))
    for one, thread in zip(loads, threads, strict=True):
        if one.calls is None:
            seconds[thread] += one.seconds
    return seconds


def find_threads(loads: Sequence[StageLoad]) -> list[int]:
    """By which thread each stage is asked for its elements; 0: by the one that takes the batches.

    >>> find_threads([StageLoad(0.0, 0.0, None), StageLoad(0.0, 0.0, 2.0, inputs=(0,))])
    [1, 0]
    """
    found, count = [0] * len(loads), 1
    for position in reversed(range(len(loads))):
        one = loads[position]
        begins = one.calls is not None or one.is_ahead
        for source in one.inputs:
            found[source] = count if begins else found[position]
            count += begins
    return found
