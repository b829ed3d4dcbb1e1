"""Cards from their files, with the faults that only their data can tell among the others."""

from collections.abc import Sequence
from pathlib import Path

from tfperf.runcard import loader
from tfperf.runcard.config import Card
from tfperf.runcard.faults import Fault
from tfperf.runcard.places import FaultyCard, Rest
from tfperf.runcard.workloads import AnyCard
from tfperf.runs.inputs import input_faults


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


def _with_data(error: FaultyCard) -> Exception:
    rest = error.rest()
    return error if rest is None else error.joined(rest.card, _told(rest))


def _told(rest: Rest) -> list[Fault]:
    if isinstance(rest.card, Card):
        return input_faults(rest.card, rest.touched)
    from tfperf.runs.texts import corpus_faults

    return corpus_faults(rest.card)
