"""A fit problem ready to train: data, masks and covariances of every replica, operators for all of them.

R replicas, N points, in float64 on the host.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tfperf.data.closure import replace_data
from tfperf.data.covariance import Covariance, experimental, slices, with_extra
from tfperf.data.keys import Purpose, generator
from tfperf.data.pack import Dataset, Pack
from tfperf.data.pseudodata import sample
from tfperf.data.selection import Selection
from tfperf.data.splits import training_mask
from tfperf.errors import CardError
from tfperf.operators.observables import Observables, compile_observables
from tfperf.operators.woodbury import components
from tfperf.runcard.config import Card, SetChoice

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """What is fitted (`datasets`, in an order that keeps correlated sets together) and what each replica sees of it."""

    pack: Pack
    datasets: tuple[Dataset, ...]
    observables: Observables
    covariance: Covariance  # of the fit: with t0 where there is one
    covariance_no_t0: Covariance
    t0: Array | None  # (N)
    truth: Array | None  # (N) noiseless predictions of the law, in a closure test
    ids: tuple[int, ...]
    data: Array  # (R, N)
    training: NDArray[np.bool_]  # (R, N)
    root_weight: Array  # (N) square root of the sets' weights in the loss

    @property
    def sets(self) -> list[slice]:
        """Rows of each dataset."""
        return slices(self.datasets)

    @property
    def central(self) -> Array:
        """Central values (N)."""
        return np.concatenate([d.cv for d in self.datasets])


def _neighbours(datasets: Sequence[Dataset], covariance: Covariance) -> list[int]:
    return [i for group in components(covariance.columns, slices(datasets)) for i in group]


def _covariance(card: Card, datasets: Sequence[Dataset], t0: Sequence[Array] | None) -> Covariance:
    plain = experimental(datasets, t0)
    return plain if card.covariance.extra is None else with_extra(plain, card.covariance.extra, datasets)


def _ordered(card: Card, selection: Selection) -> tuple[tuple[Dataset, ...], tuple[SetChoice, ...]]:
    """Datasets and choices with correlated sets next to each other."""
    datasets, choices = selection.pack.datasets, selection.choices
    order = _neighbours(datasets, _covariance(card, datasets, None))
    return tuple(datasets[i] for i in order), tuple(choices[i] for i in order)


def _pack_t0(datasets: Sequence[Dataset]) -> list[Array]:
    missing = [d.name for d in datasets if d.t0 is None]
    if missing:
        raise CardError(
            f"data.t0: got `pack`, but the pack has no t0 for {', '.join(missing)}; allowed: none, fit, a run"
        )
    return [d.t0 for d in datasets if d.t0 is not None]


def _replica_data(
    card: Card, datasets: Sequence[Dataset], choices: Sequence[SetChoice], ids: Sequence[int]
) -> tuple[Array, NDArray[np.bool_]]:
    """Pseudo-data (R, N) and training masks (R, N)."""
    sizes = [len(d.cv) for d in datasets]
    fractions = [c.training_fraction or card.data.training_fraction for c in choices]
    masks = [training_mask(sizes, fractions, generator(card.seed, i, Purpose.SPLIT)) for i in ids]
    if card.closure is not None and card.closure.level == 0:
        data = [np.concatenate([d.cv for d in datasets])] * len(ids)
    else:
        data = [sample(datasets, generator(card.seed, i, Purpose.NOISE)) for i in ids]
    return np.stack(data), np.stack(masks)


def build_problem(
    card: Card,
    selection: Selection,
    ids: Sequence[int],
    t0_pdf: Array | None = None,
    law: Callable[[Array], Array] | None = None,
) -> Problem:
    """Everything the card says about the data.

    t0_pdf (8, X): fitted flavours on the pack's grid whose predictions scale multiplicative errors; None leaves it to
    `data.t0` (pack or none). law: x (X) -> x f (8, X), the truth of a closure test, whose predictions are t0 as well.
    CardError where the pack has no t0 predictions though the card asks for them.
    """
    datasets, choices = _ordered(card, selection)
    observables = compile_observables(datasets, selection.pack.positivity)
    truth = None
    if card.closure is not None and law is not None:
        truth = observables.predict(law(selection.pack.x))
        rng = generator(card.closure.noise, 0, Purpose.TRUTH) if card.closure.level == 2 else None
        datasets = replace_data(datasets, [truth[s] for s in slices(datasets)], rng)
    t0 = None
    if t0_pdf is not None:
        t0 = observables.predict(t0_pdf)
    elif truth is not None or card.data.t0 == "pack":
        t0 = np.concatenate(_pack_t0(datasets))
    covariance = _covariance(card, datasets, None if t0 is None else [t0[s] for s in slices(datasets)])
    data, training = _replica_data(card, datasets, choices, ids)
    weights = [np.full(len(d.cv), np.sqrt(c.weight)) for d, c in zip(datasets, choices, strict=True)]
    return Problem(
        replace(selection.pack, datasets=datasets), datasets, observables, covariance,
        _covariance(card, datasets, None), t0, truth, tuple(ids), data, training, np.concatenate(weights),
    )  # fmt: skip
