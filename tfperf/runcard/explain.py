"""Validation errors in the card's own terms: place, full key, what was given, what is allowed, nearest name."""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pydantic_core import ErrorDetails

from tfperf.runcard.faults import KIND, Fault
from tfperf.runcard.scalars import inline, resolve
from tfperf.runcard.schema import Grammar, Schema, allowed, alternatives, choices
from tfperf.runcard.tree import Found, Node, shortened

Path = tuple[str | int, ...]
YAML_1_1 = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}


def full(path: Sequence[object]) -> str:
    """The full key: train.optimizer.name."""
    return shortened(".".join(map(str, path)))


def nearest(given: str, names: Iterable[str]) -> str:
    """The end of a message that offers the nearest name, or nothing."""
    folded = {n.casefold(): n for n in names}
    near = difflib.get_close_matches(given.casefold(), folded, n=1) if len(given) < 100 else []
    return f"; did you mean `{folded[near[0]]}`?" if near else ""


def walk(root: Node, loc: Sequence[str | int]) -> tuple[Node, Path, bool]:
    """The deepest node on the way, its path, and whether the way passes a refused node.

    Parts that lead nowhere are the validator's names for the branches of a union.
    """
    path: Path = ()
    node, broken = root, root.broken
    for part in loc:
        child = node.child(part)
        if child is not None:
            node, path, broken = child, (*path, part), broken or child.broken
    return node, path, broken


def hint(node: Node, schema: Schema) -> str:
    """The nearest allowed value to what was given."""
    words, kinds = choices(schema), {b.get("type") for b in alternatives(schema)}
    if isinstance(node.value, str):
        if "true" in words and node.value.lower() in YAML_1_1:
            return f"; did you mean `{YAML_1_1[node.value.lower()]}`?"
        unquoted = type(resolve(node.value))
        if (kinds & {"integer", "number"} and unquoted in (int, float)) or ("true" in words and unquoted is bool):
            return f"; did you mean `{shortened(node.value)}` without quotes?"
        return nearest(node.value, words)
    if isinstance(node.value, float) and "integer" in kinds and node.value.is_integer():
        return f"; did you mean `{int(node.value)}`?"
    return ""


def _unknown(grammar: Grammar[Any], root: Node, loc: Sequence[str | int]) -> Iterator[tuple[Path, Found]]:
    node, path, broken = walk(root, loc)
    if not broken:
        names = grammar.keys_at(path[:-1])
        near = nearest(str(path[-1]), names) or f"; allowed: {', '.join(names)}"
        yield path, Found(node.rank, node.place, f"{full(path)}: unknown key{near}")


def _missing(grammar: Grammar[Any], root: Node, loc: Sequence[str | int]) -> Iterator[tuple[Path, Found]]:
    parent, path, broken = walk(root, loc[:-1])
    if not broken:
        path = (*path, loc[-1])
        yield path, Found(parent.rank, parent.place, f"{full(path)}: missing; {allowed(grammar.at(path))}")


def _wrong(grammar: Grammar[Any], root: Node, loc: Sequence[str | int]) -> Iterator[tuple[Path, Found]]:
    node, path, broken = walk(root, loc)
    if not broken:
        schema = grammar.at(path)
        text = f"{full(path) or 'the card'}: got {node.given()}; {allowed(schema)}{hint(node, schema)}"
        yield path, Found(node.rank, node.place, text)


def _between(root: Node, loc: Sequence[str | int], fault: Fault) -> Iterator[tuple[Path, Found]]:
    """A fault that a block found itself; its key may be one that the card leaves to its default."""
    _, block, _ = walk(root, loc)
    path = (*block, *(int(p) if p.isdecimal() else p for p in fault.key.split(".") if p))
    node, reached, broken = walk(root, path)
    given = f"got {node.given()}" if reached == path else f"{inline(fault.value)} by default"
    if not broken:
        yield path, Found(node.rank, node.place, f"{full(path)}: {given}; {fault.text}")


def _explained(grammar: Grammar[Any], root: Node, error: ErrorDetails) -> Iterator[tuple[Path, Found]]:
    loc, context = error["loc"], error.get("ctx", {})
    if error["type"] == KIND:
        for fault in context["faults"]:
            yield from _between(root, loc, fault)
    elif error["type"] == "unexpected_keyword_argument":
        yield from _unknown(grammar, root, loc)
    elif loc and loc[-1] == "[key]":
        yield from _unknown(grammar, root, loc[:-1])
    elif error["type"] == "missing":
        yield from _missing(grammar, root, loc)
    else:
        yield from _wrong(grammar, root, loc)


def explain(grammar: Grammar[Any], root: Node, errors: Iterable[Any]) -> list[Found]:
    """One fault per key; of a union's branches the one that got furthest speaks."""
    by_path: dict[Path, Found] = {}
    for error in errors:
        for path, found in _explained(grammar, root, error):
            by_path.setdefault(path, found)
    inner = {path[:n] for path in by_path for n in range(len(path))}
    return [found for path, found in by_path.items() if path not in inner]
