"""Validation errors in the card's own terms: place, full key, what was given, what is allowed, nearest name."""

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from pydantic_core import ErrorDetails

from tfperf.runcard.faults import KIND, Fault, in_words
from tfperf.runcard.nodes import INDEX, Found, Node, full, quoted, shortened
from tfperf.runcard.scalars import resolve
from tfperf.runcard.schema import Grammar, Schema, allowed, alternatives, choices, holds

Path = tuple[str | int, ...]
LONG = "too_long", "string_too_long"
SWEPT = ("sweep", "keys")
YAML_1_1 = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}


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
    if isinstance(node.value, float) and node.value.is_integer() and abs(node.value) < 1e15:
        return f"; did you mean `{int(node.value)}`?" if holds(schema, int(node.value)) else ""
    return ""


def offered(given: str, names: Sequence[str]) -> str:
    """The end of a message about an unknown name: the nearest one, or those that there are."""
    return nearest(given, names) or f"; allowed: {in_words(names)}"


def _found(node: Node, path: Path, text: str, hint: Callable[[], str] = str) -> tuple[Path, Found]:
    return path, Found(node.rank, node.place, text, tuple(map(str, path)), hint)


def _unknown(grammar: Grammar[Any], root: Node, loc: Sequence[str | int]) -> Iterator[tuple[Path, Found]]:
    node, path, broken = walk(root, loc)
    if not broken:
        names = grammar.keys_at(path[:-1])
        yield _found(node, path, f"{full(path)}: unknown key", partial(_offered_key, path, names))


def _offered_key(path: Path, names: Sequence[str]) -> str:
    """The end of a message about an unknown key; where keys of the card are swept, they are not nested."""
    more = offered(str(path[-1]), names)
    return f"{more}; a swept key is written whole, as `{full(path[2:])}: [...]`" if path[:2] == SWEPT else more


def _missing(grammar: Grammar[Any], root: Node, loc: Sequence[str | int]) -> Iterator[tuple[Path, Found]]:
    parent, path, broken = walk(root, loc[:-1])
    if not broken:
        path = (*path, loc[-1])
        yield _found(parent, path, f"{full(path)}: missing; {allowed(grammar.at(path))}")


def _is_pair(schema: Schema) -> bool:
    return any("prefixItems" in branch for branch in alternatives(schema))


def _too_long(root: Node, error: ErrorDetails) -> Iterator[tuple[Path, Found]]:
    node, path, broken = walk(root, error["loc"])
    if not broken:
        context = error.get("ctx", {})
        most = context.get("max_length", 0)
        entries = isinstance(node.value, list | dict)
        given = f"{len(node.value)} entries" if isinstance(node.value, list | dict) else f"{len(node.text)} characters"
        text = f"got {given}; must have at most {most} {'entries' if entries else 'characters'}"
        yield _found(node, path, f"{full(path)}: {text}")


def _wrong(grammar: Grammar[Any], root: Node, loc: Sequence[str | int]) -> Iterator[tuple[Path, Found]]:
    node, path, broken = walk(root, loc)
    if not broken:
        schema = grammar.at(path)
        text = f"{full(path) or 'the card'}: got {node.given()}; {allowed(schema)}"
        yield _found(node, path, text, partial(hint, node, schema))


def place(root: Node, block: Path, fault: Fault) -> Iterator[tuple[Path, Found]]:
    """A fault that was found behind the grammar, by keys below a block; a key may be one that is left to its default.

    Nothing where the value was refused already.
    """
    path = (*block, *(int(p) if INDEX.fullmatch(p) else p for p in fault.key.split(".") if p))
    node, reached, broken = walk(root, path)
    given = f"got {node.given()}" if reached == path else f"{quoted(fault.value)} by default"
    if not broken:
        key = (*node.path, *path[len(reached) :])  # entries of a list may have been left out since it was read
        more = partial(offered, str(fault.value), fault.names) if fault.names else str
        yield _found(node, key, f"{full(key)}: {given}; {fault.text}", more)


def _explained(grammar: Grammar[Any], root: Node, error: ErrorDetails) -> Iterator[tuple[Path, Found]]:
    loc, context = error["loc"], error.get("ctx", {})
    if error["type"] == KIND:
        block = walk(root, loc)[1]
        for fault in context["faults"]:
            yield from place(root, block, fault)
    elif error["type"] in LONG and not _is_pair(grammar.at(walk(root, loc)[1])):
        yield from _too_long(root, error)
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
    for error in sorted(errors, key=lambda one: one["type"] not in LONG):
        for path, found in _explained(grammar, root, error):
            by_path.setdefault(path, found)
    inner = {path[:n] for path in by_path for n in range(len(path))}
    return [found for path, found in by_path.items() if path not in inner]
