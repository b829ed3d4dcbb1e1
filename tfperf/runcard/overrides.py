"""`--set key.sub=value`: one value of the card replaced, or added, before it is validated."""

import unicodedata
from collections.abc import Sequence

from tfperf.errors import CardError
from tfperf.runcard.nodes import MAX_DEPTH, CardNode, LocatedFault, format_key, shorten
from tfperf.runcard.tree import parse_tree

AFTER_ALL_LINES = 10**9
MAX_SIZE = 64 * 1024  # characters of all overrides of a command together
MAX_NUMBER = 1000


def refuse_too_many(overrides: Sequence[str]) -> None:
    """Raises: CardError for overrides that are no list of texts, and for more than may be given."""
    if isinstance(overrides, str) or not isinstance(overrides, Sequence):
        raise CardError(f"overrides: got {type(overrides).__name__}; must be a list of texts, each key.sub=value")
    if len(overrides) > MAX_NUMBER:
        raise CardError(f"--set: given {len(overrides)} times; {MAX_NUMBER} overrides at most")
    for one in overrides:
        if not isinstance(one, str):
            raise CardError(f"overrides: got {type(one).__name__} in the list; must be texts, each key.sub=value")
    if (size := sum(map(len, overrides))) > MAX_SIZE:
        key = _replace_controls(max(overrides, key=len)[: 4 * MAX_DEPTH**2].partition("=")[0])
        what = f"the longest of {len(overrides)}, together" if len(overrides) > 1 else "got"
        raise CardError(f"--set {shorten(key)}: {what} {size} characters; all overrides have {MAX_SIZE} at most")


def apply(root: CardNode, override: str, number: int) -> list[LocatedFault]:
    """Put the override into the tree; returns its faults, at the place `--set key.sub=value`, both shortened.

    `number` counts the overrides of a command. Between its dots a key has keys, or indices of lists counted from 0.
    """
    key, equals, text = override.partition("=")
    place = f"--set {shorten(_replace_controls(key))}{equals}{shorten(_replace_controls(text[:1000]))}"
    order, path = AFTER_ALL_LINES + number, tuple(key.strip().split("."))
    if not equals or not all(path):
        return [LocatedFault(order, place, "must be key.sub=value")]
    if len(path) > MAX_DEPTH:
        return [LocatedFault(order, place, f"{format_key(path)}: nested deeper than {MAX_DEPTH} levels")]
    if _replace_controls(key) != key:
        return [LocatedFault(order, place, "must be key.sub=value, the key in printable characters")]
    node, found = parse_tree(text, lambda _: (order, place), path)
    if found:
        return found
    if node is None:
        node = CardNode(order, place, None, path=path)
    elif isinstance(node.value, dict | list) and text.lstrip()[0] not in "[{":
        what = "got a block of YAML; a value is one word or number, [a, b] or {key: value}"
        return [LocatedFault(order, place, f"{key}: {what}", path)]
    return put_node(root, path, node)


def _replace_controls(text: str) -> str:
    return "".join("?" if unicodedata.category(c) in ("Cc", "Cs") else c for c in text)


def put_node(root: CardNode, path: Sequence[str], value: CardNode) -> list[LocatedFault]:
    """Replace the value at the path, and return what is wrong; mappings on the way that are absent or null are made."""
    parent = root
    for depth, name in enumerate(path[:-1], 1):
        child = parent.get_child(name)
        if child is None or child.value is None:
            child = CardNode(value.order, value.location, {}, path=tuple(path[:depth]))
            if fault := _insert(parent, path[:depth], child):
                return fault
        parent = child
    return _insert(parent, path, value)


def _insert(parent: CardNode, path: Sequence[str], value: CardNode) -> list[LocatedFault]:
    if isinstance(parent.value, dict):
        parent.value[path[-1]] = value
    elif isinstance(parent.value, list) and parent.get_child(path[-1]) is not None:
        parent.value[int(path[-1])] = value
    else:
        what = f"a list of {len(parent.value)}, counted from 0" if isinstance(parent.value, list) else parent.quote()
        text = f"{format_key(tuple(path))}: no such entry; {format_key(tuple(path[:-1]))} is {what}"
        return [LocatedFault(value.order, value.location, text, tuple(path))]
    return []
