"""Which sets and points of a pack a card asks for."""

from dataclasses import dataclass

import h5py
import numpy as np
from numpy.typing import NDArray

from tfperf.data.pack import POSITIVITY, Dataset, Pack, opened, read_dataset, read_positivity, set_names
from tfperf.errors import CardError
from tfperf.runcard.config import Card, Cuts, Data, SetChoice


@dataclass(frozen=True)
class Selection:
    """The chosen sets after cuts, and the card's word on each of them."""

    pack: Pack
    choices: tuple[SetChoice, ...]  # one per dataset of the pack, in its order


def kept(kin: NDArray[np.float64], cuts: Cuts) -> NDArray[np.intp]:
    """Indices of the points that pass; kin (N, >= 2) holds x and Q2 [GeV2] first."""
    x, q2 = kin[:, 0], kin[:, 1]
    with np.errstate(divide="ignore"):
        w2 = q2 * (1 - x) / x
    limits = ((x, cuts.x_min, cuts.x_max), (q2, cuts.q2_min, cuts.q2_max), (w2, cuts.w2_min, None))
    passed = np.ones(len(kin), bool)
    for value, low, high in limits:
        passed &= (value >= (-np.inf if low is None else low)) & (value <= (np.inf if high is None else high))
    return np.flatnonzero(passed)


def _choices(data: Data, available: tuple[str, ...]) -> tuple[SetChoice, ...]:
    if data.sets:
        return data.sets
    return tuple(SetChoice(name=n) for n in available if n not in data.exclude)


def _refuse_unknown(where: str, names: tuple[str, ...], available: tuple[str, ...]) -> list[str]:
    from difflib import get_close_matches

    faults = []
    for name in names:
        if name not in available:
            near = get_close_matches(name, available, 1)
            hint = f"; did you mean `{near[0]}`?" if near else f"; the pack has {', '.join(available)}"
            faults.append(f"{where}: got {name!r}, which the pack does not have{hint}")
    return faults


def _dataset(file: h5py.File, choice: SetChoice, cuts: Cuts) -> Dataset:
    dataset = read_dataset(file, choice.name)
    if dataset.tables[0].hadronic:
        if choice.cuts is not None:
            raise CardError(f"data.sets: {choice.name}: got cuts, but its tables are hadronic: it has no x and Q2")
        return dataset
    rows = kept(dataset.kin, choice.cuts or cuts)
    if not len(rows):
        raise CardError(f"data.cuts: no point of {choice.name} passes; widen the cuts or leave the set out")
    return dataset if len(rows) == len(dataset.cv) else dataset.rows(rows)


def select(card: Card) -> Selection:
    """Read what the card names; CardError for sets that the pack does not have or cuts that leave nothing."""
    with opened(card.data.pack) as file:
        available = set_names(file)
        positive = tuple(file[POSITIVITY]) if POSITIVITY in file else ()
        wanted = {"all": positive, "none": ()}.get(str(card.positivity.sets), card.positivity.sets)
        assert isinstance(wanted, tuple)
        faults = _refuse_unknown("data.sets", tuple(s.name for s in card.data.sets), available)
        faults += _refuse_unknown("data.exclude", card.data.exclude, available)
        faults += _refuse_unknown("positivity.sets", wanted, positive)
        if faults:
            raise CardError(*faults)
        choices = _choices(card.data, available)
        if not choices:
            raise CardError("data.exclude: no dataset is left to fit")
        pack = Pack(
            card.data.pack, file["x"][:].astype(np.float64), float(file.attrs["Q0"]),
            tuple(_dataset(file, c, card.data.cuts) for c in choices), tuple(read_positivity(file, n) for n in wanted),
        )  # fmt: skip
    return Selection(pack, choices)
