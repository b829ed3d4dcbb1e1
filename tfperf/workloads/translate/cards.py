"""Cards of translations, for what takes no others."""

from collections.abc import Sequence
from pathlib import Path

from tfperf.errors import CardError
from tfperf.workloads import cards
from tfperf.workloads.translate.card import TranslationCard
from tfperf.workloads.translate.kind import NAME


def load_card(path: Path, overrides: Sequence[str] = ()) -> TranslationCard:
    """The validated card of a YAML file. Raises: CardError, also for cards of other workloads."""
    card = cards.load_card(path, overrides)
    if not isinstance(card, TranslationCard):
        raise CardError(f"{path}: workload: got '{card.workload}'; this takes cards of workload {NAME}")
    return card
