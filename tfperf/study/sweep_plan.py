"""The trials of a sweep: every point in each repeat, in the order in which they are carried out."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tfperf.data.cache import digest_file
from tfperf.errors import CardError
from tfperf.results.contents import RESULTS
from tfperf.runcard.dump import to_tree
from tfperf.runcard.keys import Tree, find_mappings, get, put
from tfperf.runcard.kinds import AnyCard
from tfperf.runcard.places import make_unfit_error
from tfperf.runcard.points import SweepPoint
from tfperf.runcard.sweep import Sweep
from tfperf.runcard.types import CODE_FILE
from tfperf.study.finished_trials import PointValues, TrialKey, make_point_key
from tfperf.workloads.cards import load_points
from tfperf.workloads.registry import WORKLOADS


@dataclass(frozen=True)
class Trial:
    """One point in one repeat."""

    number: int  # of the point, from 1
    values: PointValues
    repeat: int  # from 1
    tree: Tree  # the point's card

    @property
    def key(self) -> TrialKey:
        """As that of the finished trial."""
        return make_point_key(self.values), self.repeat

    def make_request(self, sweep: Sweep, folder: Path, first: bool) -> Tree:
        """What study/point.py is asked; first: no other trial of the point has succeeded."""
        own = folder / f"{self.number:04}-{self.repeat}"
        return {
            "card": self.tree, "warmup": sweep.warmup, "steps": sweep.steps, "seconds": sweep.seconds, "first": first,
            "folder": str(own),
        }  # fmt: skip

    def describe(self) -> str:
        """For the terminal."""
        return f"{format_values(self.values)}, repeat {self.repeat}"


@dataclass(frozen=True)
class SweepPlan:
    """A card with a sweep, and its points, each once."""

    card: AnyCard
    sweep: Sweep
    points: Mapping[str, SweepPoint]

    def list_trials(self) -> list[Trial]:
        """All points once, then all again, each time in an order of its own: what drifts reaches all points alike.

        The card's seed and the number of the repeat decide the order, so more repeats leave those before as they were.
        """
        trees = [(i, p.values, to_tree(p.card)) for i, p in enumerate(self.points.values(), 1)]
        out = []
        for repeat in range(1, self.sweep.repeats + 1):
            for i in np.random.default_rng((self.card.seed, repeat)).permutation(len(trees)).tolist():
                number, values, tree = trees[i]
                out.append(Trial(number, values, repeat, tree))
        return out

    def make_content(self) -> Tree:
        """All that decides what a trial measures; files count by their content. Repeats and times are left out."""
        trees = [_digest_files(to_tree(point.card)) for point in self.points.values()]
        return {"points": trees, "warmup": self.sweep.warmup, "steps": self.sweep.steps}


def plan_sweep(path: Path, overrides: Sequence[str]) -> SweepPlan:
    """The sweep of a card. Raises: CardError for its faults, and for points that no trial can measure."""
    card, points = load_points(path, overrides)
    assert card.sweep is not None
    _refuse_unfit([point.card for point in points])
    missing = [str(file) for one in points for file in _list_files(to_tree(one.card)).values() if not file.is_file()]
    if missing:
        raise CardError(*(f"{file}: no such file" for file in dict.fromkeys(missing)))
    return SweepPlan(card, card.sweep, {make_point_key(point.values): point for point in points})


def _refuse_unfit(cards: Sequence[AnyCard]) -> None:
    """CardError with what no trial could do, and with what the points' data tell against them, each once."""
    faults: dict[str, None] = {}
    told: set[str] = set()
    for card in cards:
        workload, tree = WORKLOADS.get_offering("sweep", card.workload), to_tree(card)
        workload.refuse_trial(card)
        workload.refuse_auto(card)
        data = json.dumps([tree.get(name) for name in workload.kind.data])
        if data not in told:  # points with the same data have the same faults
            told.add(data)
            faults |= dict.fromkeys(make_unfit_error(card, workload.check_files(card)).faults)
    if faults:
        raise CardError(*faults)


def format_values(values: PointValues) -> str:
    """Key=value of each."""
    return " ".join(f"{key}={value}" for key, value in values.items())


def _list_files(tree: Tree) -> dict[str, Path]:
    """Every file that a trial reads, by the card's key; of a run folder its results."""
    kind = WORKLOADS.get_kind(tree["workload"])
    found: dict[str, Path] = {}
    for path in (*kind.files, *(path for path, words in kind.folders.items() if words)):
        name = ".".join(path)
        value = _get_value(tree, name)
        if value is not None and value not in kind.folders.get(path, ()):
            found[name] = Path(value) if path in kind.files else Path(value) / RESULTS
    return found


def _get_value(tree: Tree, name: str) -> str | None:
    """Of a dotted key; None where a mapping on the way is null."""
    try:
        value: str | None = get(tree, name)
    except TypeError:
        return None
    return value


def _digest_files(tree: Tree) -> Tree:
    for key, file in _list_files(tree).items():
        put(tree, key, digest_file(file))
    for *outer, key in WORKLOADS.get_kind(tree["workload"]).code:
        for mapping in find_mappings(tree, outer):
            origin, _, function = (mapping.get(key) or "").rpartition(":")
            if origin.endswith(CODE_FILE):
                mapping[key] = f"{digest_file(Path(origin))}:{function}"
    return tree
