"""YAML text to a tree of values that know where they were written; refuses what a card must not contain."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml import events
from yaml.reader import Reader

from tfperf.errors import CardError
from tfperf.runcard.nodes import INDEX, MAX_DEPTH, CardNode, LocatedFault, format_key, shorten
from tfperf.runcard.scalars import parse_scalar

MAX_FAULTS = 100
MAX_DUMP = 1 << 20  # characters of a card that was dumped
BREAK = re.compile("\r\n|\n|\r")  # what ends a line for editors; YAML 1.1 knows more


class _TooDeepError(Exception):
    """The rest of the text cannot be read."""


class _Lines:
    """Lines by position, as editors count them."""

    def __init__(self, text: str) -> None:
        self.ends = [match.end() for match in BREAK.finditer(text)]

    def find_line(self, mark: Any) -> int:
        """The line of a position or a mark of YAML, counted from 1."""
        position = mark if isinstance(mark, int) else 0 if mark is None else mark.index
        return bisect_right(self.ends, position) + 1


def _find_unprintable(text: str) -> str | None:
    """The first control or surrogate character, which an escape in double quotes can smuggle in."""
    return next((c for c in text if c not in "\n\t" and unicodedata.category(c) in ("Cc", "Cs")), None)


@dataclass
class _NodeBuilder:
    """Builds nodes from parser events and collects faults by full key."""

    events: Iterator[yaml.Event]
    lines: _Lines
    locate: Callable[[int], tuple[int, str]]
    found: list[LocatedFault] = field(default_factory=list)

    def add_fault(self, line: int, path: tuple[str, ...], text: str) -> None:
        key = f"{format_key(path)}: " if path else ""
        self.found.append(LocatedFault(*self.locate(line), f"{key}{text}", path))

    def build_node(self, event: yaml.Event, path: tuple[str, ...], line: int) -> CardNode:
        """The node that starts with `event`; `line` is where it is reported."""
        node = CardNode(*self.locate(line), None, broken=self._check_special(event, path, line), path=path)
        if len(path) > MAX_DEPTH:
            self.add_fault(line, path, f"nested deeper than {MAX_DEPTH} levels")
            raise _TooDeepError
        if isinstance(event, events.ScalarEvent):
            node.text = event.value
            node.value = parse_scalar(event.value) if event.implicit[0] else event.value
            if bad := _find_unprintable(event.value):
                self.add_fault(line, path, f"got the control character {bad!r}; text is printable")
                node.broken, node.value = True, None
        elif isinstance(event, events.SequenceStartEvent):
            node.value = list(self._build_entries(path))
        elif isinstance(event, events.MappingStartEvent):
            node.value = self._build_pairs(path)
        return node

    def _check_special(self, event: yaml.Event, path: tuple[str, ...], line: int) -> bool:
        """Refuses anchors, aliases and tags; True when the value itself is lost."""
        anchor, tag = getattr(event, "anchor", None), getattr(event, "tag", None)
        if isinstance(event, events.AliasEvent):
            self.add_fault(line, path, f"got the alias *{shorten(str(anchor))}; write the value out")
            return True
        if anchor is not None:
            self.add_fault(line, path, f"got the anchor &{shorten(anchor)}; write values out where they are used")
        if tag is not None:
            self.add_fault(line, path, f"got the tag {shorten(tag)}; values have no tags")
        return tag is not None

    def _build_entries(self, path: tuple[str, ...]) -> Iterator[CardNode]:
        index = 0
        while not isinstance(event := next(self.events), events.SequenceEndEvent):
            yield self.build_node(event, (*path, str(index)), self.lines.find_line(event.start_mark))
            index += 1

    def _build_pairs(self, path: tuple[str, ...]) -> dict[str, CardNode]:
        pairs: dict[str, CardNode] = {}
        lines: dict[str, int] = {}
        while not isinstance(event := next(self.events), events.MappingEndEvent):
            line = self.lines.find_line(event.start_mark)
            key = self._build_key(event, path, line)
            name = "?" if key is None else key
            value = self.build_node(next(self.events), (*path, name), line)
            if key is not None and key in pairs:
                self.add_fault(line, (*path, key), f"given twice, first in line {lines[key]}; a key may be given once")
            elif key is not None:
                pairs[key], lines[key] = value, line
        return pairs

    def _build_key(self, event: yaml.Event, path: tuple[str, ...], line: int) -> str | None:
        """The key, or None when it was refused."""
        node = self.build_node(event, (*path, "?"), line)
        if node.broken:
            return None
        if isinstance(event, events.ScalarEvent) and event.value == "<<" and event.implicit[0]:
            self.add_fault(line, (*path, "<<"), "merge keys are not read; write the keys out")
            return None
        if type(node.value) is int and INDEX.fullmatch(node.text):
            return node.text  # of a table by number, as of classes
        if not isinstance(node.value, str):
            self.add_fault(line, path, f"got {node.quote()} as a key; a key is text")
            return None
        return node.value


def _describe_problem(error: yaml.MarkedYAMLError, lines: _Lines) -> str:
    context = "" if error.context is None else f" {error.context}"
    if error.context_mark is not None:
        context += f" (line {lines.find_line(error.context_mark)})"
    return f"not readable as YAML: {error.problem}{context}"


def parse_tree(
    text: str, locate: Callable[[int], tuple[int, str]], path: tuple[str, ...] = ()
) -> tuple[CardNode | None, list[LocatedFault]]:
    """The tree of one YAML document and its faults; no tree when the text cannot be read to its end or is empty.

    `locate` gives order and name of a line (counted from 1); `path` is the key that the document is the value of.
    """
    lines = _Lines(text)
    if bad := Reader.NON_PRINTABLE.search(text):
        what = f"got the control character {bad.group()!r}; a card is printable text"
        return None, [LocatedFault(*locate(lines.find_line(bad.start())), what)]
    stream = yaml.parse(text, Loader=yaml.SafeLoader)
    builder, root = _NodeBuilder(stream, lines, locate), None
    try:
        next(stream)
        if isinstance(next(stream), events.DocumentStartEvent):
            event = next(stream)
            root = builder.build_node(event, path, lines.find_line(event.start_mark))
            next(stream)
            after = next(stream)
            if isinstance(after, events.DocumentStartEvent):
                builder.add_fault(lines.find_line(after.start_mark), (), "a second document starts here; a card is one")
    except _TooDeepError:
        root = None
    except yaml.MarkedYAMLError as error:
        builder.add_fault(lines.find_line(error.problem_mark), (), _describe_problem(error, lines))
        root = None
    return root, builder.found


def parse_plain(text: str) -> dict[str, Any]:
    """The plain values of a card that was dumped: what `dump.to_tree` gave.

    Raises: CardError, a line for each fault, for more than MAX_DUMP characters, and for what no dump holds: no mapping,
    more than MAX_DEPTH levels, aliases, tags, repeated keys, control characters.

    >>> parse_plain("train: {steps: 100, rate: 1e-3}")
    {'train': {'steps': 100, 'rate': 0.001}}
    """
    if len(text) > MAX_DUMP:
        raise CardError(f"longer than {MAX_DUMP} characters; a dumped card is a short text")
    root, found = parse_tree(text, lambda line: (line, f"line {line}"))
    if found or root is None or not isinstance(root.value, dict):
        faults = found[:MAX_FAULTS] or [LocatedFault(1, "line 1", "no mapping of keys")]
        raise CardError(*(one.format_line() for one in faults))
    return dict(root.to_plain())
