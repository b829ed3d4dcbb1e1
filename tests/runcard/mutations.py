"""Every one-edit mutation of a card's text, made from the places of its YAML nodes."""

from collections.abc import Iterator
from typing import NamedTuple

import yaml

from tfperf.runcard.scalars import parse_scalar
from tfperf.runcard.schema import list_alternatives
from tfperf.workloads.pdf.kind import KIND

Path = tuple[str | int, ...]
LIMITS = (("minimum", -1), ("maximum", 1), ("exclusiveMinimum", 0), ("exclusiveMaximum", 0))


class Mutation(NamedTuple):
    """A mutated text, and the line and key that must be named. `shape`: the JSON schema alone must refuse it."""

    kind: str
    text: str
    line: int
    key: str
    shape: bool = True


class Value(NamedTuple):
    """A value with its key (None for entries of lists) and the line where faults in it are reported."""

    path: Path
    key: yaml.ScalarNode | None
    node: yaml.Node
    line: int
    flow: bool

    @property
    def name(self) -> str:
        return ".".join(map(str, self.path))


def values(node: yaml.Node | None, path: Path = (), flow: bool = False) -> Iterator[Value]:
    """All values below a node, in the order of the text."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = Value((*path, key.value), key, value, key.start_mark.line + 1, node.flow_style)
            yield inner
            yield from values(value, inner.path)
    elif isinstance(node, yaml.SequenceNode):
        for i, entry in enumerate(node.value):
            yield Value((*path, i), None, entry, entry.start_mark.line + 1, node.flow_style)
            yield from values(entry, (*path, i))


def _replaced(text: str, node: yaml.Node, new: str) -> str:
    """The text with another value; a block ends before the space that leads to the next key."""
    start = node.start_mark.index
    end = start + len(text[start : node.end_mark.index].rstrip())
    return text[:start] + new + text[end:]


def _renamed(text: str, value: Value) -> Iterator[Mutation]:
    if value.key is not None:
        for new in (value.key.value + "x", value.key.value.upper()):
            name = ".".join(map(str, (*value.path[:-1], new)))
            yield Mutation("renamed", _replaced(text, value.key, new), value.line, name)


def _retyped(text: str, value: Value) -> Iterator[Mutation]:
    node = value.node
    kinds: dict[type[yaml.Node], tuple[str, ...]] = {
        yaml.MappingNode: ("wrong", "[wrong]"),
        yaml.SequenceNode: ("7.25", "{wrong: 1}"),
    }
    others = kinds.get(type(node), ())
    if isinstance(node, yaml.ScalarNode):
        given = type(node.value if node.style else parse_scalar(node.value))
        others = ("[[wrong]]", {str: "7.25", bool: "yes", type(None): "true"}.get(given, "wrong"))
    for new in others:
        yield Mutation("retyped", _replaced(text, node, new), value.line, value.name)


def _beyond(text: str, value: Value) -> Iterator[Mutation]:
    """Values of the right type that are not allowed."""
    node, schema = value.node, KIND.grammar.get_schema(value.path)
    if not isinstance(node, yaml.ScalarNode):
        return
    branches = list(list_alternatives(schema))
    for branch in branches:
        for name, step in LIMITS:
            if name in branch:
                yield Mutation("beyond", _replaced(text, node, repr(branch[name] + step)), value.line, value.name)
        if "enum" in branch or "const" in branch:
            new = "7" if branch.get("type") == "integer" else "nonsense"
            yield Mutation("beyond", _replaced(text, node, new), value.line, value.name)
    if any(b.get("type") == "number" for b in branches):
        for new in (".nan", ".inf"):
            yield Mutation("beyond", _replaced(text, node, new), value.line, value.name, shape=False)
    if value.path[-2:-1] in (("alpha",), ("beta",)):
        name = ".".join(map(str, value.path[:-1]))
        yield Mutation(
            "beyond", _replaced(text, node, ("99", "-99")[int(value.path[-1])]), value.line, name, shape=False
        )
    if value.path in (("data", "pack"), ("data", "t0"), ("closure", "law"), ("covariance", "extra")):
        yield Mutation("beyond", _replaced(text, node, "nonsense"), value.line, value.name, shape=False)


def _doubled(text: str, value: Value) -> Iterator[Mutation]:
    if value.key is None:
        return
    start = value.key.start_mark.index
    pair = text[start : value.node.end_mark.index].rstrip()
    indent = "\n" + " " * value.key.start_mark.column
    before = pair + (", " if value.flow else indent)
    line = value.line + before.count("\n")
    yield Mutation("doubled", text[:start] + before + text[start:], line, value.name, shape=False)


def mutations(text: str) -> Iterator[Mutation]:
    """All mutations of a card."""
    for value in values(yaml.compose(text, yaml.SafeLoader)):
        for mutate in (_renamed, _retyped, _beyond, _doubled):
            yield from mutate(text, value)
