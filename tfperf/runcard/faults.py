"""Faults that a mapping of the card finds between its own keys, all of them at once."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pydantic_core import PydanticCustomError

KIND = "tfperf"
TOLD = 20  # names, or faults where pydantic reports them


class Fault(NamedTuple):
    """A key (relative to the mapping that checks it), its value, what must hold, names to look for the nearest in."""

    key: str
    value: object
    text: str
    names: tuple[str, ...] = ()


def refuse(faults: Iterable[Fault]) -> None:
    """Raise one validation error that carries all the faults; nothing when there are none."""
    found = list(faults)
    if found:
        summary = "; ".join(f"{f.key}: {f.text}" if f.key else f.text for f in found[:TOLD])
        if len(found) > TOLD:
            summary += f"; and {len(found) - TOLD} more"
        raise PydanticCustomError(KIND, "{summary}", {"summary": summary, "faults": found})


def check_repeats(key: str, names: Sequence[str]) -> Iterator[Fault]:
    """Names that stand in a list before; `key` has a place for the index.

    >>> list(check_repeats("data.exclude.{}", ["a", "b", "a"]))
    [Fault(key='data.exclude.2', value='a', text='is in the list already', names=())]
    """
    seen: set[str] = set()
    for i, name in enumerate(names):
        if name in seen:
            yield Fault(key.format(i), name, "is in the list already")
        seen.add(name)


def format_names(names: Sequence[str]) -> str:
    """Names as a message lists them."""
    more = f" and {len(names) - TOLD} more" if len(names) > TOLD else ""
    return f"{', '.join(names[:TOLD])}{more}"
