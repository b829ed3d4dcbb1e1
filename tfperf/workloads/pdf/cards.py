"""Cards of replica fits, for what takes no others."""

import os
import reprlib
from collections.abc import Sequence
from pathlib import Path

from tfperf.errors import CardError
from tfperf.runcard.kinds import AnyCard
from tfperf.runcard.places import changed
from tfperf.workloads import cards
from tfperf.workloads.pdf.card import Card, Closure
from tfperf.workloads.pdf.kind import NAME


def load_card(path: Path, overrides: Sequence[str] = ()) -> Card:
    """The validated card of a YAML file. Raises: CardError, also for cards of other workloads."""
    return _of_pdf(path, cards.load_card(path, overrides))


def open_card(path: Path, overrides: Sequence[str] = ()) -> Card:
    """The same with the faults that only its data can tell among the others."""
    return _of_pdf(path, cards.open_card(path, overrides))


def as_card(card: object, overrides: Sequence[str] = ()) -> Card:
    """A card, or the one that a path leads to. Raises: CardError, also for what is neither."""
    if isinstance(card, Card):
        if overrides:
            raise CardError("overrides: given with a Card; only a file takes them: use dataclasses.replace")
        return card
    if isinstance(card, str | os.PathLike) and isinstance(path := os.fspath(card), str) and "\0" not in path:
        return open_card(Path(path), overrides)
    raise CardError(f"card: got {reprlib.repr(card)}; must be a Card of workload {NAME}, or the path of a YAML file")


def _of_pdf(path: Path, card: AnyCard) -> Card:
    if not isinstance(card, Card):
        raise CardError(f"{path}: workload: got '{card.workload}'; this takes cards of workload {NAME}")
    return card


def as_closure(card: Card) -> Card:
    """The card as a closure test: with the default law and level 0 where it says nothing of one."""
    return card if card.closure is not None else changed(card, closure=Closure())
