"""A card as YAML text: resolved, and as a commented example."""

from tfperf.runcard.config import Card, as_tree
from tfperf.runcard.scalars import dump


def dump_card(card: Card) -> str:
    """The resolved card as YAML, every default filled in; loading it gives an equal card."""
    return dump(as_tree(card))
