"""The points of a card's sweep, each a whole card."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tfperf.errors import CardError
from tfperf.runcard.kinds import AnyCard, Kinds
from tfperf.runcard.loader import read_root, validate_card
from tfperf.runcard.nodes import MAX_DEPTH, CardNode, LocatedFault, format_key
from tfperf.runcard.overrides import put_node
from tfperf.runcard.places import make_card_error
from tfperf.runcard.sweep import Value


@dataclass(frozen=True)
class SweepPoint:
    """Values by full key, and the card that has them; its own sweep is left out."""

    values: dict[str, Value]
    card: AnyCard


def load_points(path: Path, kinds: Kinds, overrides: Sequence[str] = ()) -> tuple[AnyCard, list[SweepPoint]]:
    """The card of a YAML file, and the points of its sweep.

    Raises: CardError with the faults of the card or of all points; a card without a sweep is one.
    """
    root, found = read_root(path, overrides)
    card = validate_card(root, found, path.parent, kinds)
    if card.sweep is None:
        raise CardError(f"{path}: sweep: missing; must be a mapping with keys, and the values that they take")
    if wrong := [fault for key in card.sweep.keys for fault in _check_swept_key(root, key)]:
        raise make_card_error(wrong)
    faults: dict[str, None] = {}  # in order, each once
    points = []
    for values in card.sweep.list_points():
        try:
            points.append(SweepPoint(values, _replace_values(root, values, path.parent, kinds)))
        except CardError as error:
            faults |= dict.fromkeys(error.faults)
    if faults:
        raise CardError(*faults)
    return card, points


def _find_swept_node(root: CardNode, key: str) -> CardNode:
    """Where the values of a swept key are written."""
    node = root
    for name in ("sweep", "keys", key):
        node = node.get_child(name) or node
    return node


def _check_swept_key(root: CardNode, key: str) -> list[LocatedFault]:
    path = key.split(".")
    if path[0] not in ("sweep", "workload") and all(path) and len(path) <= MAX_DEPTH:
        return []
    where = _find_swept_node(root, key)
    text = f"sweep.keys.{format_key((key,))}: cannot be swept; must be a full key of the card"
    return [LocatedFault(where.order, where.location, text, ("sweep", "keys", key))]


def _replace_values(root: CardNode, values: dict[str, Value], folder: Path, kinds: Kinds) -> AnyCard:
    """The card of a tree with some of its values replaced; the tree stays as it is. Raises: CardError."""
    assert isinstance(root.value, dict)
    tree = replace(root, value={key: node for key, node in root.value.items() if key != "sweep"})
    found = []
    for key, value in values.items():
        where, path = _find_swept_node(root, key), tuple(key.split("."))
        _copy_way(tree, path)
        found += put_node(tree, path, CardNode(where.order, where.location, value, json.dumps(value), path=path))
    return validate_card(tree, found, folder, kinds)


def _copy_way(tree: CardNode, path: Sequence[str]) -> None:
    """Give the tree mappings of its own on the way to a value; all others it goes on sharing."""
    node = tree
    for name in path[:-1]:
        child = node.get_child(name)
        if child is None or not isinstance(child.value, dict | list):
            return
        own = replace(child, value=child.value.copy())
        if isinstance(node.value, dict):
            node.value[name] = own
        elif isinstance(node.value, list):
            node.value[int(name)] = own
        node = own
