"""How a training uses the cores of a CPU; decided before TensorFlow starts, which fixes its threads."""

from dataclasses import dataclass
from math import log
from typing import Literal

FEWEST = 5  # replicas of a stack that has others beside it
SIZE, LEAST, MOST = 10, 7, 20  # replicas of a stack that has others before or after it: aimed at, and limits
LARGE = 2_000_000  # entries of tables that no cache holds
SHORT = 5000  # steps of all replicas, up to which starting more stacks takes longer than they save


@dataclass(frozen=True)
class Cores:
    """Stacks on the CPU, and the threads that TensorFlow has for the operations of all of them."""

    threads: int
    stacks: int = 1


def share_cores(total: int, stacks: Literal["auto"] | int, replicas: int, entries: int, steps: int) -> Cores:
    """So many threads for so many stacks; auto: the same number for each thread, of about `SIZE` replicas.

    Side by side they keep all cores busy where the operations of one stack are too small to be shared out: a fifth to
    a third less time on 2 cores. One after the other, each for many steps, they work on what the caches hold: another
    fifth less with stacks of 10 or 25 than with stacks of 50; and small ones are left out as their replicas stop. But
    each reads all `entries` of the tables, and large ones fill the cores anyway. For a few `steps` one is enough: they
    are too few for XLA, each stack is traced apart, and what starts operations works for one after the other.

    >>> share_cores(2, "auto", replicas=100, entries=500_000, steps=17_000)
    Cores(threads=2, stacks=10)
    >>> share_cores(2, "auto", replicas=10, entries=500_000, steps=300)
    Cores(threads=2, stacks=1)
    """
    if stacks != "auto":
        return Cores(total, stacks)
    if entries >= LARGE or steps * replicas <= SHORT:
        return Cores(total)
    return Cores(total, _count(max(1, min(total, replicas // FEWEST)), replicas))


def _count(sides: int, replicas: int) -> int:
    """How many stacks, the same number on each side: of one size if possible, since each size has its own program."""
    counts = [n for n in range(sides, replicas + 1, sides) if LEAST <= replicas / n <= MOST]
    return min(counts, key=lambda n: (replicas % n > 0, abs(log(replicas / n / SIZE))), default=sides)
