"""The points of a card's sweep, each a whole card."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tfperf.errors import CardError
from tfperf.runcard.kinds import AnyCard, Kinds
from tfperf.runcard.loader import read_root, validated
from tfperf.runcard.nodes import MAX_DEPTH, Found, Node, full
from tfperf.runcard.overrides import put
from tfperf.runcard.places import refused
from tfperf.runcard.sweep import Value


@dataclass(frozen=True)
class Point:
    """Values by full key, and the card that has them; its own sweep is left out."""

    values: dict[str, Value]
    card: AnyCard


def load_points(path: Path, kinds: Kinds, overrides: Sequence[str] = ()) -> tuple[AnyCard, list[Point]]:
    """The card of a YAML file, and the points of its sweep.

    Raises: CardError with the faults of the card or of all points; a card without a sweep is one.
    """
    root, found = read_root(path, overrides)
    card = validated(root, found, path.parent, kinds)
    if card.sweep is None:
        raise CardError(f"{path}: sweep: missing; must be a mapping with keys, and the values that they take")
    if wrong := [fault for key in card.sweep.keys for fault in _not_swept(root, key)]:
        raise refused(wrong)
    faults: dict[str, None] = {}  # in order, each once
    points = []
    for values in card.sweep.points():
        try:
            points.append(Point(values, _with(root, values, path.parent, kinds)))
        except CardError as error:
            faults |= dict.fromkeys(error.faults)
    if faults:
        raise CardError(*faults)
    return card, points


def _written(root: Node, key: str) -> Node:
    """Where the values of a swept key are written."""
    node = root
    for part in ("sweep", "keys", key):
        node = node.child(part) or node
    return node


def _not_swept(root: Node, key: str) -> list[Found]:
    parts = key.split(".")
    if parts[0] not in ("sweep", "workload") and all(parts) and len(parts) <= MAX_DEPTH:
        return []
    where = _written(root, key)
    text = f"sweep.keys.{full((key,))}: cannot be swept; must be a full key of the card"
    return [Found(where.rank, where.place, text, ("sweep", "keys", key))]


def _with(root: Node, values: dict[str, Value], folder: Path, kinds: Kinds) -> AnyCard:
    """The card of a tree with some of its values replaced; the tree stays as it is. Raises: CardError."""
    assert isinstance(root.value, dict)
    tree = replace(root, value={key: node for key, node in root.value.items() if key != "sweep"})
    found = []
    for key, value in values.items():
        where, parts = _written(root, key), tuple(key.split("."))
        _copy_way(tree, parts)
        found += put(tree, parts, Node(where.rank, where.place, value, json.dumps(value), path=parts))
    return validated(tree, found, folder, kinds)


def _copy_way(tree: Node, parts: Sequence[str]) -> None:
    """Give the tree blocks of its own on the way to a value; all others it goes on sharing."""
    node = tree
    for part in parts[:-1]:
        child = node.child(part)
        if child is None or not isinstance(child.value, dict | list):
            return
        own = replace(child, value=child.value.copy())
        if isinstance(node.value, dict):
            node.value[part] = own
        elif isinstance(node.value, list):
            node.value[int(part)] = own
        node = own
