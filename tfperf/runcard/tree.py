"""YAML text to a tree of values that know where they were written; refuses what a card must not contain."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml
from yaml import events
from yaml.reader import Reader

from tfperf.runcard.scalars import Scalar, inline, resolve

MAX_DEPTH = 10
SHOWN = 60


class Found(NamedTuple):
    """A fault and where it is: `rank` orders the report (line number; overrides come after all lines)."""

    rank: int
    place: str
    text: str


@dataclass
class Node:
    """One value of the card. `broken`: already refused, so nothing more is said about it."""

    rank: int
    place: str
    value: Scalar | dict[str, Node] | list[Node]
    text: str = ""
    broken: bool = False

    def plain(self) -> Any:
        """The value without places."""
        if isinstance(self.value, dict):
            return {k: v.plain() for k, v in self.value.items()}
        return [v.plain() for v in self.value] if isinstance(self.value, list) else self.value

    def child(self, key: object) -> Node | None:
        """The value under a key of a mapping or an index of a list; None when there is none."""
        if isinstance(self.value, dict):
            return self.value.get(str(key))
        if isinstance(self.value, list) and str(key).isdecimal() and int(str(key)) < len(self.value):
            return self.value[int(str(key))]
        return None

    def given(self) -> str:
        """The value as a message quotes it."""
        if isinstance(self.value, dict):
            return "a mapping"
        if isinstance(self.value, list):
            return shortened(inline(self.plain())) if _flat(self.value) else "a list"
        if isinstance(self.value, str):
            return shortened(repr(self.value))
        return shortened(self.text) or "nothing"


def _flat(nodes: list[Node]) -> bool:
    return not any(isinstance(n.value, dict | list) for n in nodes)


def shortened(text: str) -> str:
    """The text, cut where a message would become unreadable."""
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


class _TooDeepError(Exception):
    """The rest of the text cannot be read."""


def _line(event: yaml.Event) -> int:
    """Where the event starts, counted from 1."""
    return event.start_mark.line + 1 if event.start_mark is not None else 1


def _unprintable(text: str) -> str | None:
    """The first control or surrogate character, which an escape in double quotes can smuggle in."""
    return next((c for c in text if c not in "\n\t" and unicodedata.category(c) in ("Cc", "Cs")), None)


@dataclass
class _Builder:
    """Builds nodes from parser events and collects faults by full key."""

    events: Iterator[yaml.Event]
    place: Callable[[int], tuple[int, str]]
    found: list[Found] = field(default_factory=list)

    def refuse(self, line: int, path: tuple[str, ...], text: str) -> None:
        key = f"{shortened('.'.join(path))}: " if path else ""
        self.found.append(Found(*self.place(line), f"{key}{text}"))

    def node(self, event: yaml.Event, path: tuple[str, ...], line: int) -> Node:
        """The node that starts with `event`; `line` is where it is reported."""
        node = Node(*self.place(line), None, broken=self._special(event, path, line))
        if len(path) > MAX_DEPTH:
            self.refuse(line, path, f"nested deeper than {MAX_DEPTH} levels")
            raise _TooDeepError
        if isinstance(event, events.ScalarEvent):
            node.text = event.value
            node.value = resolve(event.value) if event.implicit[0] else event.value
            if bad := _unprintable(event.value):
                self.refuse(line, path, f"got the control character {bad!r}; text is printable")
                node.broken, node.value = True, None
        elif isinstance(event, events.SequenceStartEvent):
            node.value = list(self._entries(path))
        elif isinstance(event, events.MappingStartEvent):
            node.value = self._pairs(path)
        return node

    def _special(self, event: yaml.Event, path: tuple[str, ...], line: int) -> bool:
        """Refuses anchors, aliases and tags; True when the value itself is lost."""
        anchor, tag = getattr(event, "anchor", None), getattr(event, "tag", None)
        if isinstance(event, events.AliasEvent):
            self.refuse(line, path, f"got the alias *{shortened(str(anchor))}; write the value out")
            return True
        if anchor is not None:
            self.refuse(line, path, f"got the anchor &{shortened(anchor)}; write values out where they are used")
        if tag is not None:
            self.refuse(line, path, f"got the tag {shortened(tag)}; values have no tags")
        return tag is not None

    def _entries(self, path: tuple[str, ...]) -> Iterator[Node]:
        index = 0
        while not isinstance(event := next(self.events), events.SequenceEndEvent):
            yield self.node(event, (*path, str(index)), _line(event))
            index += 1

    def _pairs(self, path: tuple[str, ...]) -> dict[str, Node]:
        pairs: dict[str, Node] = {}
        lines: dict[str, int] = {}
        while not isinstance(event := next(self.events), events.MappingEndEvent):
            line = _line(event)
            key = self._key(event, path, line)
            name = "?" if key is None else key
            value = self.node(next(self.events), (*path, name), line)
            if key is not None and key in pairs:
                self.refuse(line, (*path, key), f"given twice, first in line {lines[key]}; a key may be given once")
            elif key is not None:
                pairs[key], lines[key] = value, line
        return pairs

    def _key(self, event: yaml.Event, path: tuple[str, ...], line: int) -> str | None:
        """The key, or None when it was refused."""
        node = self.node(event, (*path, "?"), line)
        if node.broken:
            return None
        if isinstance(event, events.ScalarEvent) and event.value == "<<" and event.implicit[0]:
            self.refuse(line, (*path, "<<"), "merge keys are not read; write the keys out")
            return None
        if not isinstance(node.value, str):
            self.refuse(line, path, f"got {node.given()} as a key; a key is text")
            return None
        return node.value


def _line_of(pattern: re.Pattern[str], text: str) -> tuple[int, str] | None:
    match = pattern.search(text)
    return None if match is None else (text.count("\n", 0, match.start()) + 1, match.group())


def _problem(error: yaml.MarkedYAMLError) -> str:
    context = "" if error.context is None else f" {error.context}"
    if error.context_mark is not None:
        context += f" (line {error.context_mark.line + 1})"
    return f"not readable as YAML: {error.problem}{context}"


def read_tree(
    text: str, place: Callable[[int], tuple[int, str]], path: tuple[str, ...] = ()
) -> tuple[Node | None, list[Found]]:
    """The tree of one YAML document and its faults; no tree when the text cannot be read to its end or is empty.

    `place` gives rank and name of a line (counted from 1); `path` is the key that the document is the value of.
    """
    if bad := _line_of(Reader.NON_PRINTABLE, text):
        return None, [Found(*place(bad[0]), f"got the control character {bad[1]!r}; a card is printable text")]
    stream = yaml.parse(text, Loader=yaml.SafeLoader)
    builder, root = _Builder(stream, place), None
    try:
        next(stream)
        if isinstance(next(stream), events.DocumentStartEvent):
            event = next(stream)
            root = builder.node(event, path, _line(event))
            next(stream)
            following = next(stream)
            if isinstance(following, events.DocumentStartEvent):
                builder.refuse(_line(following), (), "a second document starts here; a card is one")
    except _TooDeepError:
        root = None
    except yaml.MarkedYAMLError as error:
        line = 0 if error.problem_mark is None else error.problem_mark.line
        builder.refuse(line + 1, (), _problem(error))
        root = None
    return root, builder.found
