"""The points of a card's sweep, each a whole card."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

from tfperf.errors import CardError
from tfperf.runcard.loader import read_root, validated
from tfperf.runcard.overrides import put
from tfperf.runcard.scalars import inline
from tfperf.runcard.sweep import Value
from tfperf.runcard.tree import Node
from tfperf.runcard.workloads import AnyCard


@dataclass(frozen=True)
class Point:
    """Values by full key, and the card that has them; its own sweep is left out."""

    values: dict[str, Value]
    card: AnyCard


def load_points(path: Path, overrides: Sequence[str] = ()) -> tuple[AnyCard, list[Point]]:
    """The card of a YAML file, and the points of its sweep.

    Raises: CardError with the faults of the card or of all points; a card without a sweep is one.
    """
    root, found = read_root(path, overrides)
    card = validated(deepcopy(root), found, path.parent)
    if card.sweep is None:
        raise CardError(f"{path}: sweep: missing; must be a mapping with keys, and the values that they take")
    faults: dict[str, None] = {}  # in order, each once
    points = []
    for values in card.sweep.points():
        try:
            points.append(Point(values, _with(root, values, path.parent)))
        except CardError as error:
            faults |= dict.fromkeys(error.faults)
    if faults:
        raise CardError(*faults)
    return card, points


def _with(root: Node, values: dict[str, Value], folder: Path) -> AnyCard:
    """The card of a tree with some of its values replaced. Raises: CardError."""
    tree = deepcopy(root)
    assert isinstance(tree.value, dict)
    sweep = tree.value.pop("sweep").child("keys")
    found = []
    for key, value in values.items():
        where = sweep.child(key) if sweep is not None else None
        rank, place = (tree.rank, tree.place) if where is None else (where.rank, where.place)
        parts = key.split(".")
        if parts[0] in ("sweep", "workload") or not all(parts):
            raise CardError(f"{place}: sweep.keys.{key}: cannot be swept; must be a full key of the card")
        found += put(tree, parts, Node(rank, place, value, inline(value)))
    return validated(tree, found, folder)
