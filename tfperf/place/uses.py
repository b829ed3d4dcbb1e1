"""How often a step reads and writes variables and slots, held against what passes and updates need."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import keras

from tfperf.place.graphs import ProgramTensor
from tfperf.place.nodes import SMALL
from tfperf.place.state import count_bytes
from tfperf.place.traffic import Moves
from tfperf.place.transfers import NeededUse, format_bytes, format_device, format_names


class UpdatedCopy(NamedTuple):
    """A copy of a variable, as an optimizer numbers them: its devices and those of its slots, and who reads it.

    passes: how many devices read it, once each; changes: whether it has a gradient, without which none updates it.
    """

    what: str
    size: int
    device: str
    slots: str
    passes: int
    changes: bool = True


def list_uses(moves: Iterable[Moves], every: list[UpdatedCopy], slots: Sequence[keras.Variable]) -> Iterator[NeededUse]:
    """Uses of copies and of the optimizer's variables; moves: of the update of each copy."""
    for move in moves:
        one = every[move.update]
        reads, writes = (move.reads, move.writes) if one.changes else (0, 0)
        if move.slot is None:
            yield NeededUse(one.what, one.device, one.size, reads + one.passes, writes)
        else:
            slot = slots[move.slot]
            yield NeededUse(f"slot {slot.path}", one.slots, count_bytes(slot), reads, writes)


def count_most_bytes(moves: Iterable[Moves], every: Sequence[UpdatedCopy], include_assignments: bool) -> dict[str, int]:
    """Bytes that the operations of each copy's update give at most, also of assignments, which give what they got."""
    found: Counter[str] = Counter()
    for move in moves:
        one, outputs = every[move.update], move.large_outputs * (move.slot is None)
        found[one.what] += one.changes * (outputs + move.writes * include_assignments) * one.size
    return dict(found)


def check_uses(tensors: Iterable[ProgramTensor], needed: Iterable[NeededUse]) -> Iterator[str]:
    """Faults of variables that are read more often, or written more or less often, than they need to be.

    Those of one size on one device are compared together; that there are as many is left to `check_program_tensors`.
    """
    seen: dict[tuple[str, int], list[ProgramTensor]] = defaultdict(list)
    wanted: dict[tuple[str, int], list[NeededUse]] = defaultdict(list)
    for one in tensors:
        if one.what == "variable" and one.size is not None and one.size > SMALL:
            seen[one.device, one.size].append(one)
    for use in needed:
        if use.reads or use.writes:
            wanted[use.device, use.size].append(use)
    for place in sorted({*seen} & {*wanted}):
        here, there = seen[place], wanted[place]
        what = f"variables of {format_bytes(place[1])} on {format_device(place[0])}"
        names = format_names([use.what for use in there])
        writes = zip(sorted(one.writes for one in here), sorted(use.writes for use in there), strict=False)
        wrong = Counter(pair for pair in writes if pair[0] != pair[1])
        if wrong and len(here) == len(there):
            (times, must), count = wrong.most_common(1)[0]
            yield f"{what}: {count} of {len(here)} written {times} times a step; must be {must}: {names}"
        reads, most = sum(one.reads for one in here), sum(use.reads for use in there)
        if reads > most:
            yield f"{what}: read {reads} times a step; must be {most} at most: {names}"
