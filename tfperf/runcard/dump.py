"""A card as plain values and as YAML text."""

import json
from typing import Any

from tfperf.runcard.kinds import AnyCard
from tfperf.runcard.scalars import dump
from tfperf.runcard.schema import get_adapter


def to_tree(card: AnyCard) -> dict[str, Any]:
    """The card as plain YAML-able values with every default filled in; loading it gives an equal card."""
    tree: dict[str, Any] = get_adapter(type(card)).dump_python(card, mode="json")
    return tree


def to_json_tree(card: AnyCard) -> dict[str, Any]:
    """The same as values that survive JSON: lists in place of tuples."""
    tree: dict[str, Any] = json.loads(json.dumps(to_tree(card)))
    return tree


def dump_card(card: AnyCard) -> str:
    """The resolved card as YAML, every default filled in; loading it gives an equal card."""
    return dump(to_tree(card))
