"""Parts of a run of replicas: those of a new run, replicas that are added, failed ones that are tried again."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import ceil
from pathlib import Path

from tfperf.errors import CardError, RunDirectoryError
from tfperf.results.contents import CARD
from tfperf.results.state import RunState, make_key
from tfperf.workloads.replica_chunks import ReplicaChunk, ReplicaPart

MOST_CHUNKS = 5000  # of which run.json still is a text that is read


def make_parts(ids: Sequence[int], attempts: Sequence[int], choose_size: Callable[[int], int]) -> list[ReplicaPart]:
    """Parts for replicas, in chunks; choose_size: how many of so many are trained together. Raises: CardError."""
    chunks = split(len(ids), choose_size(len(ids)))
    if len(chunks) > MOST_CHUNKS:
        raise CardError(
            f"engine.chunk: {len(ids)} replicas would be {len(chunks)} chunks; at most {MOST_CHUNKS} are kept in a run"
        )
    return [
        ReplicaPart(ReplicaChunk(list(ids[rows]), list(attempts[rows]), chunk=i, chunks=len(chunks)), make_key())
        for i, rows in enumerate(chunks, 1)
    ]


def list_new_replicas(path: Path, ids: tuple[int, ...], state: RunState[ReplicaChunk]) -> tuple[list[int], list[int]]:
    """Ids that are to be added to a run, and their attempts. Raises: RunDirectoryError for one that is there."""
    known = sorted(set(ids) & {i for part in state.parts for i in part.own.ids})
    if known:
        raise RunDirectoryError(f"{path}: replica {known[0]} is there already; --replicas takes new ones")
    return list(ids), [0] * len(ids)


def refuse_other_replicas(path: Path, ids: tuple[int, ...], state: RunState[ReplicaChunk]) -> None:
    """RunDirectoryError for replicas that no command has asked for together."""
    asked = [[i for p in state.parts[n : n + part.own.chunks] for i in p.own.ids]
             for n, part in enumerate(state.parts) if part.own.chunk == 1]  # fmt: skip
    if list(ids) not in asked:
        first = asked[0]
        raise RunDirectoryError(
            f"{path / CARD}: replicas: got {ids[0]}-{ids[-1]}, the run began with {first[0]}-{first[-1]}"
        )


def group_neighbours(ids: Sequence[int]) -> list[tuple[int, ...]]:
    """Numbers of replicas, as a card may name them: those that follow each other are together.

    >>> group_neighbours([3, 4, 17])
    [(3, 4), (17,)]
    """
    groups: list[list[int]] = []
    for number in sorted(ids):
        if groups and groups[-1][-1] + 1 == number:
            groups[-1].append(number)
        else:
            groups.append([number])
    return [tuple(one) for one in groups]


def split(total: int, most: int) -> list[slice]:
    """The fewest chunks of at most `most` of `total` rows, all of nearly the same size.

    >>> split(10, 4)
    [slice(0, 3, None), slice(3, 6, None), slice(6, 10, None)]
    """
    count = ceil(total / most)
    ends = [total * i // count for i in range(count + 1)]
    return [slice(a, b) for a, b in pairwise(ends)]
