"""How a training uses the cores of a CPU; decided before TensorFlow starts, which fixes its threads."""

from dataclasses import dataclass
from typing import Literal

FEWEST = 5  # replicas of a stack that has others beside it
LARGE = 2_000_000  # entries of tables that no cache holds


@dataclass(frozen=True)
class Cores:
    """Stacks trained side by side, and the threads that TensorFlow has for the operations of all of them."""

    threads: int
    stacks: int = 1


def share_cores(total: int, stacks: Literal["auto"] | int, replicas: int, entries: int) -> Cores:
    """So many threads for so many stacks; auto: a stack of `FEWEST` replicas or more for each thread.

    Side by side they keep all cores busy where the operations of one stack are too small to be shared out: a fifth to
    a third less time on 2 cores. But each reads all `entries` of the tables, and large ones fill the cores anyway.
    Fewer threads than stacks take less processor time, but more time: what XLA runs side by side waits for a thread.
    """
    few = min(total, replicas // FEWEST) if entries < LARGE else 1
    return Cores(total, max(1, few) if stacks == "auto" else stacks)
