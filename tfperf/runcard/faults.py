"""Faults that a block of the card finds between its own keys, all of them at once."""

from collections.abc import Iterable
from typing import NamedTuple

from pydantic_core import PydanticCustomError

KIND = "tfperf"


class Fault(NamedTuple):
    """A key (relative to the block that checks it), its value, and what must hold."""

    key: str
    value: object
    text: str


def refuse(faults: Iterable[Fault]) -> None:
    """Raise one validation error that carries all the faults; nothing when there are none."""
    found = list(faults)
    if found:
        summary = "; ".join(f"{f.key}: {f.text}" if f.key else f.text for f in found)
        raise PydanticCustomError(KIND, "{summary}", {"summary": summary, "faults": found})
