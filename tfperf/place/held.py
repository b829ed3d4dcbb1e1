"""What a program holds: variables it touches, constants and captured tensors, beside what a placement keeps."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tfperf.place.copies import Needs, listed, short, text
from tfperf.place.graphs import Held
from tfperf.place.nodes import SMALL


class Kept(NamedTuple):
    """A copy of a variable, or a slot: what it is, the device it is on, the one it has to be on, its bytes."""

    what: str
    device: str
    wanted: str
    size: int


def judge_kept(kept: Iterable[Kept]) -> list[str]:
    """Faults of what is not where it has to be."""
    return [
        f"{one.what}: is on {short(one.device)}; must be {short(one.wanted)}"
        for one in kept if one.device != one.wanted
    ]  # fmt: skip


def judge_held(held: Iterable[Held], kept: Sequence[Kept], needs: Needs) -> Iterator[str]:
    """Faults of variables that the placement does not know, or that no step touches, and of what should be one.

    Constants and captured tensors that are the trainable's own need not be.
    """
    seen: dict[tuple[str, int], list[str]] = {}
    captured = Counter(needs.captured)
    for one in held:
        if one.size is None or one.size <= SMALL:
            continue
        if one.what == "variable":
            seen.setdefault((one.device, one.size), []).append(one.name)
        elif one.what == "constant" and one.content in needs.constants:
            continue
        elif one.what == "captured tensor" and captured[one.size]:
            captured[one.size] -= 1
        else:
            yield f"{one.what} of {text(one.size)} on {short(one.device)}: must be a variable: {one.name}"
    known = Counter((one.device, one.size) for one in kept if one.size > SMALL)
    known -= Counter((use.device, use.size) for use in needs.uses if not (use.reads or use.writes))
    for place in sorted({*seen, *known}):
        there, here = known[place], len(seen.get(place, ()))
        if here != there:
            names = listed([one.what for one in kept if (one.device, one.size) == place] or ["none"])
            yield (
                f"variables of {text(place[1])} on {short(place[0])}: a step touches {here}; "
                f"the placement has {there}: {names}"
            )
