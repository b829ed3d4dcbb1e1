"""Which sets and points of a pack a card asks for."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import h5py
import numpy as np

from tfperf.arrays import BoolMask, Float64Array, Indices
from tfperf.runcard.faults import Fault, format_names
from tfperf.runcard.places import make_unfit_error
from tfperf.workloads.pdf.card import Card, Cuts, Data, SetChoice
from tfperf.workloads.pdf.data import pack
from tfperf.workloads.pdf.data.pack import POSITIVITY, Dataset, Pack, list_sets, open_pack


@dataclass(frozen=True)
class Selection:
    """The chosen sets after cuts, and the card's word on each of them."""

    pack: Pack
    choices: tuple[SetChoice, ...]  # one per dataset of the pack, in its order


def find_passing_points(kin: Float64Array, cuts: Cuts) -> Indices:
    """Indices of the points that pass; kin (N, >= 2) holds x and Q2 [GeV2] first.

    >>> kin = np.array([[0.1, 2.0], [0.1, 10.0], [0.9, 10.0]])  # W2 = Q2 (1 - x) / x: 18, 90, 1.1 GeV2
    >>> find_passing_points(kin, Cuts(q2_min=3.49, w2_min=12.5))
    array([1])
    """
    x, q2 = kin[:, 0], kin[:, 1]
    with np.errstate(divide="ignore"):
        w2 = q2 * (1 - x) / x
    limits = ((x, cuts.x_min, cuts.x_max), (q2, cuts.q2_min, cuts.q2_max), (w2, cuts.w2_min, None))
    return np.flatnonzero(_find_within(limits, len(kin)))


def find_within_columns(kin: Float64Array, names: Sequence[str], cuts: Cuts) -> Indices:
    """Indices of the points that pass the cuts on columns; kin (N, C), whose columns have these names.

    >>> find_within_columns(np.array([[2.1, 7.0], [4.4, 7.0]]), ("y", "sqrts"), Cuts(columns={"y": (2.0, 4.25)}))
    array([0])
    """
    columns = {name: kin[:, place] for place, name in enumerate(names)}
    limits = ((columns[name], *limit) for name, limit in cuts.columns.items() if name in columns)
    return np.flatnonzero(_find_within(limits, len(kin)))


def _find_within(limits: Iterable[tuple[Float64Array, float | None, float | None]], points: int) -> BoolMask:
    passed = np.ones(points, bool)
    for value, low, high in limits:
        passed &= (value >= (-np.inf if low is None else low)) & (value <= (np.inf if high is None else high))
    return passed


def _list_choices(data: Data, available: tuple[str, ...]) -> tuple[SetChoice, ...]:
    if data.sets:
        return data.sets
    return tuple(SetChoice(name=n) for n in available if n not in data.exclude)


def check_names(card: Card, available: tuple[str, ...], positive: tuple[str, ...]) -> list[Fault]:
    """Names in a card of sets that the pack does not have."""
    sets = card.positivity.sets if isinstance(card.positivity.sets, tuple) else ()
    named = (
        ("data.sets.{}.name", [s.name for s in card.data.sets], available),
        ("data.exclude.{}", card.data.exclude, available),
        ("positivity.sets.{}", sets, positive),
    )
    return [
        Fault(key.format(i), name, "the pack does not have it", have or ("none",))
        for key, names, have in named
        for i, name in enumerate(names)
        if name not in have
    ]


@dataclass
class _Reader:
    """Reads the chosen sets and collects what their cuts leave nothing of."""

    file: h5py.File
    data: Data
    keys: Mapping[str, str]  # of the sets that the card names
    faults: list[Fault] = field(default_factory=list)
    left_empty: list[str] = field(default_factory=list)  # by data.cuts

    def read_passing(self, choice: SetChoice) -> Dataset:
        """The points that pass."""
        dataset, key = pack.read_dataset(self.file, choice.name), self.keys.get(choice.name, "data")
        cuts = choice.cuts or self.data.cuts
        self._refuse_missing_columns(choice, dataset, key)
        rows = find_within_columns(dataset.kin, dataset.kin_names, cuts)
        if not dataset.tables[0].hadronic:
            rows = np.intersect1d(rows, find_passing_points(dataset.kin, cuts))
        elif choice.cuts is not None and choice.cuts.has_scales:
            have = ", ".join(dataset.kin_names)
            text = f"the tables of {choice.name} are hadronic: it has no x and Q2 to cut on; `columns` cuts on {have}"
            self.faults.append(Fault(f"{key}.cuts", None, text))
        if not len(rows) and choice.cuts is not None:
            text = f"no point of {choice.name} passes; widen the cuts or leave the set out"
            self.faults.append(Fault(f"{key}.cuts", None, text))
        elif not len(rows):
            self.left_empty.append(choice.name)
        return dataset if len(rows) == len(dataset.cv) else dataset.select_points(rows)

    def _refuse_missing_columns(self, choice: SetChoice, dataset: Dataset, key: str) -> None:
        for name in choice.cuts.columns if choice.cuts is not None else ():
            if name not in dataset.kin_names:
                text = f"{choice.name} has no such column"
                self.faults.append(Fault(f"{key}.cuts.columns.{name}", None, text, dataset.kin_names))

    def list_faults(self) -> list[Fault]:
        """One for data.cuts, however many sets it leaves nothing of."""
        if not self.left_empty:
            return self.faults
        text = f"no point of {format_names(self.left_empty)} passes; widen the cuts or leave the set out"
        return [*self.faults, Fault("data.cuts", None, text)]


def try_select(card: Card) -> tuple[Selection, list[Fault]]:
    """What the card names as far as the pack has it, and the faults in names and cuts."""
    with open_pack(card.data.pack) as file:
        available, positive = list_sets(file), tuple(file[POSITIVITY]) if POSITIVITY in file else ()
        wanted = {"all": positive, "none": ()}.get(str(card.positivity.sets), card.positivity.sets)
        assert isinstance(wanted, tuple)
        faults = check_names(card, available, positive)
        choices = tuple(c for c in _list_choices(card.data, available) if c.name in available)
        if not choices and not faults:
            faults.append(Fault("data.exclude", list(card.data.exclude), "no dataset is left to fit"))
        reader = _Reader(file, card.data, {s.name: f"data.sets.{i}" for i, s in enumerate(card.data.sets)})
        selected = Pack(
            card.data.pack, file["x"][:].astype(np.float64), float(file.attrs["Q0"]),
            tuple(reader.read_passing(c) for c in choices),
            tuple(pack.read_positivity(file, n) for n in wanted if n in positive),
        )  # fmt: skip
    return Selection(selected, choices), faults + reader.list_faults()


def select(card: Card) -> Selection:
    """Read what the card names; UnfitCardError for sets that the pack does not have or cuts that leave nothing."""
    selection, faults = try_select(card)
    if faults:
        raise make_unfit_error(card, faults)
    return selection
