"""The tree of a card: values that know where they were written, and faults that know where they are."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from tfperf.runcard.scalars import Scalar, dump_inline

MAX_DEPTH = 10
SHOWN = 60
SHOWN_ENTRIES = SHOWN // 3  # an entry of a list takes that many characters at least
INDEX = re.compile("0|[1-9][0-9]{0,8}")


class LocatedFault(NamedTuple):
    """A fault and where it is.

    order: of the report (line number; overrides come after all lines). path: the key, where there is one. hint: what
    is put behind, made for those faults only that are shown: looking for the nearest name takes its time.
    """

    order: int
    location: str
    text: str
    path: tuple[str, ...] = ()
    hint: Callable[[], str] = str

    def format_line(self) -> str:
        """The fault as it is reported."""
        place = f"{self.location}: " if self.location else ""
        return f"{place}{self.text}{self.hint()}"


@dataclass
class CardNode:
    """One value of the card, and its key. `broken`: already refused, so nothing more is said about it."""

    order: int
    location: str
    value: Scalar | dict[str, CardNode] | list[CardNode]
    text: str = ""
    broken: bool = False
    path: tuple[str, ...] = ()

    def to_plain(self) -> Any:
        """The value without places."""
        if isinstance(self.value, dict):
            return {k: v.to_plain() for k, v in self.value.items()}
        return [v.to_plain() for v in self.value] if isinstance(self.value, list) else self.value

    def get_child(self, key: object) -> CardNode | None:
        """The value under a key of a mapping or an index of a list; None when there is none."""
        if isinstance(self.value, dict):
            return self.value.get(str(key))
        if isinstance(self.value, list) and INDEX.fullmatch(str(key)) and int(str(key)) < len(self.value):
            return self.value[int(str(key))]
        return None

    def quote(self) -> str:
        """The value as a message quotes it."""
        if isinstance(self.value, dict):
            return "a mapping"
        if isinstance(self.value, list):
            return quote_value([n.value for n in self.value]) if _is_flat(self.value) else "a list"
        if isinstance(self.value, str):
            return shorten(repr(self.value[: 2 * SHOWN]))
        return shorten(self.text) or "nothing"


def _is_flat(nodes: list[CardNode]) -> bool:
    return not any(isinstance(n.value, dict | list) for n in nodes)


def shorten(text: str) -> str:
    """The text, cut where a message would become unreadable."""
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def quote_value(value: Any) -> str:
    """A value that no node has, as a message quotes it; of a long list no more is looked at than is shown."""
    if isinstance(value, list):
        value = [v[:SHOWN] if isinstance(v, str) else v for v in value[: SHOWN_ENTRIES + 1]]
    return shorten(dump_inline(value))


def format_key(path: tuple[object, ...]) -> str:
    """The full key: train.optimizer.name."""
    return shorten(".".join(map(str, path)))
