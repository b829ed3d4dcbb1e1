"""Validation errors in the card's own terms: place, full key, what was given, what is allowed, nearest name."""

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from pydantic_core import ErrorDetails

from tfperf.runcard.faults import KIND, Fault, format_names
from tfperf.runcard.nodes import INDEX, CardNode, LocatedFault, format_key, quote_value, shorten
from tfperf.runcard.scalars import parse_scalar
from tfperf.runcard.schema import Grammar, Schema, can_hold, describe_allowed, list_alternatives, list_choices

KeyPath = tuple[str | int, ...]
LONG = "too_long", "string_too_long"
SWEPT = ("sweep", "keys")
YAML_1_1 = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}


def suggest_nearest(given: str, names: Iterable[str]) -> str:
    """The end of a message that offers the nearest name, or nothing.

    >>> suggest_nearest("toleranse", ["tolerance", "threads"]), suggest_nearest("xyz", ["tolerance"])
    ('; did you mean `tolerance`?', '')
    """
    near = find_nearest(given, names)
    return f"; did you mean `{near}`?" if near else ""


def find_nearest(given: str, names: Iterable[str]) -> str:
    """The name that is nearest to what was given; empty where none is near."""
    originals = {n.casefold(): n for n in names}
    near = difflib.get_close_matches(given.casefold(), originals, n=1) if len(given) < 100 else []
    return originals[near[0]] if near else ""


def find_node(root: CardNode, loc: Sequence[str | int]) -> tuple[CardNode, KeyPath, bool]:
    """The deepest node on the way, its path, and whether the way passes a refused node.

    Keys that lead nowhere are the validator's names for the branches of a union.
    """
    path: KeyPath = ()
    node, broken = root, root.broken
    for key in loc:
        child = node.get_child(key)
        if child is not None:
            node, path, broken = child, (*path, key), broken or child.broken
    return node, path, broken


def suggest_value(node: CardNode, schema: Schema) -> str:
    """The nearest allowed value to what was given."""
    words, kinds = list_choices(schema), {b.get("type") for b in list_alternatives(schema)}
    if isinstance(node.value, str):
        if "true" in words and node.value.lower() in YAML_1_1:
            return f"; did you mean `{YAML_1_1[node.value.lower()]}`?"
        unquoted = type(parse_scalar(node.value))
        if (kinds & {"integer", "number"} and unquoted in (int, float)) or ("true" in words and unquoted is bool):
            return f"; did you mean `{shorten(node.value)}` without quotes?"
        names = [one for branch in list_alternatives(schema) for one in _list_names(branch)]
        if near := find_nearest(node.value, names):  # of a mapping that is told by its name
            return f"; did you mean `{{name: {near}}}`?"
        return suggest_nearest(node.value, words)
    if isinstance(node.value, float) and node.value.is_integer() and abs(node.value) < 1e15:
        return f"; did you mean `{int(node.value)}`?" if can_hold(schema, int(node.value)) else ""
    return ""


def _list_names(schema: Schema) -> Sequence[str]:
    """What the key `name` of a mapping may be."""
    return list_choices(schema.get("properties", {}).get("name", {}))


def suggest_name(given: str, names: Sequence[str]) -> str:
    """The end of a message about an unknown name: the nearest one, or those that there are."""
    return suggest_nearest(given, names) or f"; allowed: {format_names(names)}"


def _make_fault(
    node: CardNode, path: KeyPath, text: str, hint: Callable[[], str] = str
) -> tuple[KeyPath, LocatedFault]:
    return path, LocatedFault(node.order, node.location, text, tuple(map(str, path)), hint)


def _explain_unknown(grammar: Grammar[Any], root: CardNode, loc: KeyPath) -> Iterator[tuple[KeyPath, LocatedFault]]:
    node, path, broken = find_node(root, loc)
    if not broken:
        if what := grammar.describe_keys(path[:-1]):
            yield _make_fault(node, path, f"{format_key(path)}: unknown key; must be {what}")
            return
        names = grammar.list_keys(path[:-1])
        yield _make_fault(node, path, f"{format_key(path)}: unknown key", partial(_suggest_key, path, names))


def _suggest_key(path: KeyPath, names: Sequence[str]) -> str:
    """The end of a message about an unknown key; where keys of the card are swept, they are not nested."""
    more = suggest_name(str(path[-1]), names)
    return f"{more}; a swept key is written whole, as `{format_key(path[2:])}: [...]`" if path[:2] == SWEPT else more


def _explain_missing(grammar: Grammar[Any], root: CardNode, loc: KeyPath) -> Iterator[tuple[KeyPath, LocatedFault]]:
    parent, path, broken = find_node(root, loc[:-1])
    if not broken:
        path = (*path, loc[-1])
        yield _make_fault(parent, path, f"{format_key(path)}: missing; {describe_allowed(grammar.get_schema(path))}")


def _is_pair(schema: Schema) -> bool:
    return any("prefixItems" in branch for branch in list_alternatives(schema))


def _explain_too_long(root: CardNode, error: ErrorDetails) -> Iterator[tuple[KeyPath, LocatedFault]]:
    node, path, broken = find_node(root, error["loc"])
    if not broken:
        context = error.get("ctx", {})
        most = context.get("max_length", 0)
        entries = isinstance(node.value, list | dict)
        given = f"{len(node.value)} entries" if isinstance(node.value, list | dict) else f"{len(node.text)} characters"
        text = f"got {given}; must have at most {most} {'entries' if entries else 'characters'}"
        yield _make_fault(node, path, f"{format_key(path)}: {text}")


def _explain_wrong(grammar: Grammar[Any], root: CardNode, loc: KeyPath) -> Iterator[tuple[KeyPath, LocatedFault]]:
    node, path, broken = find_node(root, loc)
    if not broken:
        schema = grammar.get_schema(path)
        text = f"{format_key(path) or 'the card'}: got {node.quote()}; {describe_allowed(schema)}"
        yield _make_fault(node, path, text, partial(suggest_value, node, schema))


def locate_fault(root: CardNode, base: KeyPath, fault: Fault) -> Iterator[tuple[KeyPath, LocatedFault]]:
    """A fault that was found behind the grammar, by keys below `base`; a key may be one that is left to its default.

    Nothing where the value was refused already.
    """
    path = (*base, *(int(p) if INDEX.fullmatch(p) else p for p in fault.key.split(".") if p))
    node, reached, broken = find_node(root, path)
    given = f"got {node.quote()}" if reached == path else f"{quote_value(fault.value)} by default"
    if not broken:
        key = (*node.path, *path[len(reached) :])  # entries of a list may have been left out since it was read
        more = partial(suggest_name, str(fault.value), fault.names) if fault.names else str
        yield _make_fault(node, key, f"{format_key(key)}: {given}; {fault.text}", more)


def _explain_error(
    grammar: Grammar[Any], root: CardNode, error: ErrorDetails
) -> Iterator[tuple[KeyPath, LocatedFault]]:
    loc, context = error["loc"], error.get("ctx", {})
    if error["type"] == KIND:
        base = find_node(root, loc)[1]
        for fault in context["faults"]:
            yield from locate_fault(root, base, fault)
    elif error["type"] in LONG and not _is_pair(grammar.get_schema(find_node(root, loc)[1])):
        yield from _explain_too_long(root, error)
    elif error["type"] == "unexpected_keyword_argument":
        yield from _explain_unknown(grammar, root, loc)
    elif loc and loc[-1] == "[key]":
        yield from _explain_unknown(grammar, root, loc[:-1])
    elif error["type"] == "missing":
        yield from _explain_missing(grammar, root, loc)
    else:
        yield from _explain_wrong(grammar, root, loc)


def explain(grammar: Grammar[Any], root: CardNode, errors: Iterable[Any]) -> list[LocatedFault]:
    """One fault per key; of a union's branches the one that got furthest speaks."""
    by_path: dict[KeyPath, LocatedFault] = {}
    for error in sorted(errors, key=lambda one: one["type"] not in LONG):
        for path, found in _explain_error(grammar, root, error):
            by_path.setdefault(path, found)
    inner = {path[:n] for path in by_path for n in range(len(path))}
    return [found for path, found in by_path.items() if path not in inner]
