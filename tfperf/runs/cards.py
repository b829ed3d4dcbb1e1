"""Cards from their files, with the faults that only their data can tell among the others."""

import os
import reprlib
from collections.abc import Sequence, Set
from pathlib import Path

from tfperf.errors import CardError
from tfperf.runcard import loader
from tfperf.runcard.faults import Fault
from tfperf.runcard.places import FaultyCard
from tfperf.workloads.pdf.card import Card
from tfperf.workloads.pdf.inputs import input_faults
from tfperf.workloads.registry import AnyCard


def open_card(path: Path, overrides: Sequence[str] = ()) -> Card:
    """The same as `open_any`, for what takes cards of workload replicas alone."""
    try:
        return loader.load_card(path, overrides)
    except FaultyCard as error:
        raise _with_data(error) from None


def open_any(path: Path, overrides: Sequence[str] = ()) -> AnyCard:
    """The card of a YAML file as `load_any` gives it.

    Raises: CardError with its faults, and with those in what is right so far that only its data can tell: names of sets
    that the pack does not have, cuts that leave nothing.
    """
    try:
        return loader.load_any(path, overrides)
    except FaultyCard as error:
        raise _with_data(error) from None


def as_card(card: object, overrides: Sequence[str] = ()) -> Card:
    """A card, or the one that a path leads to. Raises: CardError, also for what is neither."""
    if isinstance(card, Card):
        if overrides:
            raise CardError("overrides: given with a Card; only a file takes them: use dataclasses.replace")
        return card
    if isinstance(card, str | os.PathLike) and isinstance(path := os.fspath(card), str) and "\0" not in path:
        return open_card(Path(path), overrides)
    raise CardError(f"card: got {reprlib.repr(card)}; must be a Card of workload replicas, or the path of a YAML file")


def _with_data(error: FaultyCard) -> CardError:
    rest = error.rest()
    if rest is None:
        return error
    if isinstance(rest, Card):
        return error.joined(rest, input_faults(rest), _is_certain)
    from tfperf.workloads.translate.texts import corpus_faults

    return error.joined(rest, corpus_faults(rest), _is_certain)


def _is_certain(fault: Fault, path: Sequence[str], known: Set[tuple[str, ...]]) -> bool:
    """Whether a fault that files tell holds whatever the values should have been that are refused.

    A name that is not known does. Cuts of a set rest on the entry of that set alone, others on all of their block, an
    extra covariance on all points that are fitted.
    """
    if fault.names:
        return True
    rests_on = [tuple(path[:3] if tuple(path[:2]) == ("data", "sets") else path[:1])]
    if path[0] == "covariance":
        rests_on.append(("data",))
    return not any(one[: len(block)] == block for one in known for block in rests_on)
