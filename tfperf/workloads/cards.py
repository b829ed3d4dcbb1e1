"""Cards of all workloads from their files, with the faults that only their data can tell among the others."""

import os
import reprlib
from collections.abc import Sequence, Set
from pathlib import Path
from typing import TypeGuard

from tfperf.errors import CardError, FaultyCardError, RunDirectoryError
from tfperf.results.contents import CARD
from tfperf.results.reading import read_text
from tfperf.runcard import loader, points
from tfperf.runcard.faults import Fault
from tfperf.runcard.kinds import AnyCard
from tfperf.runcard.places import FaultyCard
from tfperf.runcard.points import SweepPoint
from tfperf.runcard.tree import parse_plain
from tfperf.workloads.registry import WORKLOADS


def load_card(path: Path, overrides: Sequence[str] = ()) -> AnyCard:
    """The validated card of a YAML file, as runcard/loader.py gives it."""
    return loader.load_card(path, WORKLOADS, overrides)


def load_points(path: Path, overrides: Sequence[str] = ()) -> tuple[AnyCard, list[SweepPoint]]:
    """The card of a YAML file, and the points of its sweep, as runcard/points.py gives them."""
    return points.load_points(path, WORKLOADS, overrides)


def load_checked_card(path: Path, overrides: Sequence[str] = ()) -> AnyCard:
    """The card of a YAML file.

    Raises: CardError with its faults, and with those in what is right so far that only its data can tell, as names of
    sets that are not there, or cuts that leave nothing.
    """
    try:
        return load_card(path, overrides)
    except FaultyCardError as error:
        raise _merge_data_faults(error) from None


def resolve_card(card: object, overrides: Sequence[str] = ()) -> AnyCard:
    """A card of any workload, or the one that a path leads to. Raises: CardError, also for what is neither."""
    if _is_card(card):
        if overrides:
            raise CardError("overrides: given with a card; only a file takes them: use dataclasses.replace")
        return card
    if isinstance(card, str | os.PathLike) and isinstance(path := os.fspath(card), str) and "\0" not in path:
        return load_checked_card(Path(path), overrides)
    raise CardError(f"card: got {reprlib.repr(card)}; must be a card of a workload, or the path of a YAML file")


def _is_card(card: object) -> TypeGuard[AnyCard]:
    name = getattr(card, "workload", None)
    return isinstance(name, str) and isinstance(card, WORKLOADS.get_kind(name).grammar.card_type)


def read_workload_name(folder: Path) -> str:
    """The workload of what stands in a folder with a card; the default where that is damaged."""
    try:
        name = parse_plain(read_text(folder / CARD)).get("workload", WORKLOADS.default)
    except (OSError, ValueError, AttributeError, CardError, RunDirectoryError):
        name = WORKLOADS.default
    return WORKLOADS.renamed.get(str(name), str(name))


def _merge_data_faults(error: FaultyCardError) -> CardError:
    faulty: FaultyCard = error.card
    rest = faulty.remove_faults()
    if rest is None:
        return error
    workload = WORKLOADS.get_for_card(rest)

    def is_certain(fault: Fault, path: Sequence[str], known: Set[tuple[str, ...]]) -> bool:
        """Whether a fault that files tell holds whatever the values should have been that are refused.

        A name that is not known does.
        """
        dependencies = workload.list_dependencies(path)
        return bool(fault.names) or not any(one[: len(needed)] == needed for one in known for needed in dependencies)

    return faulty.merge_faults(rest, workload.check_files(rest), is_certain)
