"""Cards of replica fits, for what takes no others."""

from collections.abc import Sequence
from pathlib import Path

from tfperf.errors import CardError
from tfperf.runcard.kinds import AnyCard
from tfperf.runcard.places import replace_values
from tfperf.workloads import cards
from tfperf.workloads.pdf.card import Card, Closure
from tfperf.workloads.pdf.kind import NAME


def load_card(path: Path, overrides: Sequence[str] = ()) -> Card:
    """The validated card of a YAML file. Raises: CardError, also for cards of other workloads."""
    return _refuse_other_workloads(path, cards.load_card(path, overrides))


def load_checked_card(path: Path, overrides: Sequence[str] = ()) -> Card:
    """The same with the faults that only its data can tell among the others."""
    return _refuse_other_workloads(path, cards.load_checked_card(path, overrides))


def _refuse_other_workloads(path: Path, card: AnyCard) -> Card:
    if not isinstance(card, Card):
        raise CardError(f"{path}: workload: got '{card.workload}'; this takes cards of workload {NAME}")
    return card


def to_closure(card: Card) -> Card:
    """The card as a closure test: with the default law and level 0 where it says nothing of one."""
    return card if card.closure is not None else replace_values(card, closure=Closure())
