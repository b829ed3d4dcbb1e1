"""What a program holds: variables it touches, constants and captured tensors, beside what a placement keeps."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tfperf.place.graphs import ProgramTensor
from tfperf.place.nodes import SMALL
from tfperf.place.transfers import Needs, format_bytes, format_device, format_names


class VariableCopy(NamedTuple):
    """A copy of a variable, or a slot: what it is, the device it is on, the one it has to be on, its bytes."""

    what: str
    device: str
    wanted: str
    size: int


def check_variable_copies(copies: Iterable[VariableCopy]) -> list[str]:
    """Faults of what is not where it has to be."""
    return [
        f"{one.what}: is on {format_device(one.device)}; must be {format_device(one.wanted)}"
        for one in copies if one.device != one.wanted
    ]  # fmt: skip


def check_program_tensors(tensors: Iterable[ProgramTensor], copies: list[VariableCopy], needs: Needs) -> Iterator[str]:
    """Faults of variables that the placement does not know, or that no step touches, and of what should be one.

    Constants and captured tensors that are the trainable's own need not be.
    """
    seen: dict[tuple[str, int], list[str]] = {}
    captured = Counter(needs.captured)
    for one in tensors:
        if one.size is None or one.size <= SMALL:
            continue
        if one.what == "variable":
            seen.setdefault((one.device, one.size), []).append(one.name)
        elif one.what == "constant" and one.digest in needs.constants:
            continue
        elif one.what == "captured tensor" and captured[one.size]:
            captured[one.size] -= 1
        else:
            where = f"{format_bytes(one.size)} on {format_device(one.device)}"
            yield f"{one.what} of {where}: must be a variable: {one.name}"
    known = Counter((one.device, one.size) for one in copies if one.size > SMALL)
    known -= Counter((use.device, use.size) for use in needs.uses if not (use.reads or use.writes))
    for place in sorted({*seen, *known}):
        there, here = known[place], len(seen.get(place, ()))
        if here != there:
            names = format_names([one.what for one in copies if (one.device, one.size) == place] or ["none"])
            where = f"{format_bytes(place[1])} on {format_device(place[0])}"
            yield f"variables of {where}: a step touches {here}; the placement has {there}: {names}"
