"""A fit problem ready to train: data, masks and covariances of every replica, operators for all of them.

R replicas, N points, in float64 on the host.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tfperf.data.cache import OFF, Cache, digest
from tfperf.data.keys import Purpose, generator
from tfperf.errors import PackError
from tfperf.runcard.faults import Fault, in_words
from tfperf.runcard.places import UnfitCard
from tfperf.workloads.pdf.card import Card, SetChoice
from tfperf.workloads.pdf.data.closure import replace_data
from tfperf.workloads.pdf.data.covariance import Covariance, experimental, slices, with_extra
from tfperf.workloads.pdf.data.pack import Dataset, Pack
from tfperf.workloads.pdf.data.pseudodata import sample
from tfperf.workloads.pdf.data.selection import Selection
from tfperf.workloads.pdf.data.splits import training_mask
from tfperf.workloads.pdf.operators.observables import Observables, compile_observables, predict_sets
from tfperf.workloads.pdf.operators.woodbury import Whitened, blocks, components, whiten

Array = NDArray[np.float64]
T = TypeVar("T")


class Kept:
    """What was made from a problem but for its replicas; `replace` hands it on to the problems of other replicas."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[tuple[Any, ...], Any]] = {}

    def get(self, name: str, sources: tuple[Any, ...], make: Callable[[], T]) -> T:
        """What `make` made last time, made anew where a source is another object, or an array of other values."""
        found = self._made.get(name)
        if found is None or not all(map(_same, found[0], sources)):
            found = self._made[name] = sources, make()
        return found[1]


def _same(one: Any, other: Any) -> bool:
    return one is other or (isinstance(one, np.ndarray) and np.array_equal(one, other))


@dataclass(frozen=True)
class Problem:
    """What is fitted (`datasets`, in an order that keeps correlated sets together) and what each replica sees of it."""

    pack: Pack
    datasets: tuple[Dataset, ...]
    observables: Observables
    blocks: tuple[tuple[int, ...], ...]  # datasets whose points stay together: all that share systematics, and more
    covariance: Covariance  # of the fit: with t0 where there is one
    covariance_no_t0: Covariance
    truth: Array | None  # (N) noiseless predictions of the law, in a closure test
    ids: tuple[int, ...]
    data: Array  # (R, N)
    training: NDArray[np.bool_]  # (R, N)
    root_weight: Array  # (N) square root of the sets' weights in the loss
    cache: Cache = OFF  # of what is made from the problem
    tables: str | None = None  # digest of what the observables are made from, where that is known
    kept: Kept = field(default_factory=Kept, repr=False, compare=False)

    @property
    def sets(self) -> dict[str, slice]:
        """Rows of each dataset."""
        return dict(zip([d.name for d in self.datasets], slices(self.datasets), strict=True))

    @property
    def whitened(self) -> Whitened:
        """The covariance of the fit in the blocks, in float64; made once."""
        sets = self.sets
        return self.kept.get("whitened", (self.covariance,), lambda: whiten(self.covariance, sets, groups=self.blocks))

    @property
    def central(self) -> Array:
        """Central values (N)."""
        return np.concatenate([d.cv for d in self.datasets])


def _covariance(card: Card, datasets: Sequence[Dataset], t0: Sequence[Array] | None) -> Covariance:
    plain = experimental(datasets, t0)
    if card.covariance.extra is None:
        return plain
    try:
        return with_extra(plain, card.covariance.extra, datasets)
    except PackError as error:
        keyed = [Fault("covariance.extra", str(card.covariance.extra), fault) for fault in error.faults]
        raise UnfitCard(card, keyed) from None


def _neighbours(covariance: Covariance, datasets: Sequence[Dataset]) -> list[list[int]]:
    """Blocks of datasets, with those that are correlated next to each other."""
    where = slices(datasets)
    return blocks(covariance.columns, where, components(covariance.columns, where))


def _pack_t0(card: Card, datasets: Sequence[Dataset]) -> list[Array]:
    missing = [d.name for d in datasets if d.t0 is None]
    if missing:
        text = f"the pack has no t0 for {in_words(missing)}; allowed: none, fit, a run folder"
        raise UnfitCard(card, [Fault("data.t0", "pack", text)])
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


def _cached_replica_data(
    cache: Cache, card: Card, datasets: Sequence[Dataset], choices: Sequence[SetChoice], ids: Sequence[int]
) -> tuple[Array, NDArray[np.bool_]]:
    """The same, drawn only once."""
    sets = [(d.name, d.operation, d.cv, d.stat, d.sys, d.sys_names, d.sys_is_mult) for d in datasets]
    fractions = (card.data.training_fraction, [c.training_fraction for c in choices])
    key = digest(card.seed, tuple(ids), card.closure, fractions, sets)
    return cache.get("replicas", key, lambda: _replica_data(card, datasets, choices, ids))


def _tables_digest(pack: Pack, datasets: Sequence[Dataset]) -> str | None:
    """Digest of all tables; None where one does not say where it comes from."""
    tables = [(d.operation, [t.source for t in d.tables]) for d in datasets]
    positivity = [p.table.source for p in pack.positivity]
    unknown = None in positivity or any(None in sources for _, sources in tables)
    return None if unknown else digest(tables, positivity, pack.x)


def _pretended(card: Card, datasets: Sequence[Dataset], truth: Sequence[Array]) -> tuple[Dataset, ...]:
    """The sets as the law of a closure test would have them, with one draw of noise at level 2."""
    assert card.closure is not None
    rng = generator(card.closure.noise, 0, Purpose.TRUTH) if card.closure.level == 2 else None
    return replace_data(datasets, truth, rng)


def take_replicas(problem: "Problem", rows: NDArray[np.int64]) -> "Problem":
    """The problem of some of its replicas."""
    ids = tuple(problem.ids[r] for r in rows)
    return replace(problem, ids=ids, data=problem.data[rows], training=problem.training[rows])


def build_problem(
    card: Card,
    selection: Selection,
    ids: Sequence[int],
    t0_pdf: Array | None = None,
    law: Callable[[Array], Array] | None = None,
) -> Problem:
    """Everything the card says about the data.

    t0_pdf (8, X): fitted flavours on the pack's grid whose predictions scale multiplicative errors; None leaves it to
    `data.t0` (pack or none). law: x (X) -> x f (8, X), truth of a closure test, whose predictions are the pack's t0.
    UnfitCard where the pack has no t0 predictions though the card asks for them.
    """
    # all draws are made in the order of the card or the pack, so that they do not depend on what correlates the sets
    pack, datasets, truth, t0 = selection.pack, selection.pack.datasets, None, None
    if law is not None:
        truth = predict_sets(datasets, law(pack.x))
        datasets = _pretended(card, datasets, truth)
    cache = Cache(card.engine.cache)
    data, training = _cached_replica_data(cache, card, datasets, selection.choices, ids)
    weights = [np.full(len(d.cv), np.sqrt(c.weight)) for d, c in zip(datasets, selection.choices, strict=True)]
    groups = _neighbours(_covariance(card, datasets, None), datasets)
    order = [i for group in groups for i in group]
    points = np.concatenate([np.arange(s.start, s.stop) for s in (slices(datasets)[i] for i in order)])
    datasets = tuple(datasets[i] for i in order)
    ends = np.cumsum([0, *(len(group) for group in groups)])
    neighbours = tuple(tuple(range(a, b)) for a, b in pairwise(ends.tolist()))
    if t0_pdf is not None:
        t0 = predict_sets(datasets, t0_pdf)
    elif card.data.t0 == "pack":
        t0 = _pack_t0(card, datasets)
    tables, nodes = _tables_digest(pack, datasets), int((pack.x < 1).sum())
    observables = cache.get(
        "observables", tables and digest(tables, nodes, neighbours),
        lambda: compile_observables(datasets, pack.positivity, nodes, neighbours),
    )  # fmt: skip
    return Problem(
        replace(pack, datasets=datasets), datasets, observables, neighbours,
        _covariance(card, datasets, t0), _covariance(card, datasets, None),
        None if truth is None else np.concatenate(truth)[points], tuple(ids), data[:, points], training[:, points],
        np.concatenate(weights)[points], cache, tables,
    )  # fmt: skip
