"""A fit problem ready to train: data, masks and covariances of every replica, operators for all of them.

R replicas, N points, in float64 on the host.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from tfperf.arrays import BoolMask, Float64Array, ReplicaIndices
from tfperf.data.cache import OFF, Cache, digest
from tfperf.data.keys import Purpose, make_generator
from tfperf.errors import PackError
from tfperf.runcard.faults import Fault, format_names
from tfperf.runcard.places import make_unfit_error
from tfperf.workloads.pdf.card import Card, SetChoice
from tfperf.workloads.pdf.data.closure import compute_toy_pdf, replace_data
from tfperf.workloads.pdf.data.covariance import (
    CovarianceMatrix,
    add_extra,
    compute_covariance,
    compute_extra_root,
    make_slices,
)
from tfperf.workloads.pdf.data.pack import Dataset, Pack
from tfperf.workloads.pdf.data.pseudodata import sample_pseudodata
from tfperf.workloads.pdf.data.selection import Selection
from tfperf.workloads.pdf.data.splits import choose_fraction, sample_split
from tfperf.workloads.pdf.operators.observables import Observables, compile_observables, predict_sets
from tfperf.workloads.pdf.operators.woodbury import Whitening, build_whitening, find_components, join_components

T = TypeVar("T")


class Memo:
    """What was made from a problem but for its replicas; `replace` hands it on to the problems of other replicas."""

    def __init__(self) -> None:
        self._results: dict[str, tuple[tuple[Any, ...], Any]] = {}

    def get(self, name: str, sources: tuple[Any, ...], make: Callable[[], T]) -> T:
        """What `make` made last time, made anew where a source is another object, or an array of other values."""
        found = self._results.get(name)
        if found is None or not all(map(_is_same, found[0], sources)):
            found = self._results[name] = sources, make()
        return found[1]


def _is_same(one: Any, other: Any) -> bool:
    return one is other or (isinstance(one, np.ndarray) and np.array_equal(one, other))


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What is fitted (`datasets`, in an order that keeps correlated sets together) and what each replica sees of it."""

    pack: Pack
    datasets: tuple[Dataset, ...]
    observables: Observables
    blocks: tuple[tuple[int, ...], ...]  # datasets whose points stay together: all that share systematics, and more
    covariance: CovarianceMatrix  # of the fit: with t0 where there is one
    covariance_no_t0: CovarianceMatrix
    truth: Float64Array | None  # (N) noiseless predictions of the law, in a closure test
    ids: tuple[int, ...]
    data: Float64Array  # (R, N)
    training: BoolMask  # (R, N)
    root_weight: Float64Array  # (N) square root of the sets' weights in the loss
    cache: Cache = OFF  # of what is made from the problem
    tables_digest: str | None = None  # digest of what the observables are made from, where that is known
    memo: Memo = field(default_factory=Memo, repr=False, compare=False)

    @property
    def sets(self) -> dict[str, slice]:
        """Rows of each dataset."""
        return dict(zip([d.name for d in self.datasets], make_slices(self.datasets), strict=True))

    @property
    def whitening(self) -> Whitening:
        """The covariance of the fit in the blocks, in float64; made once."""
        sets, covariance = self.sets, self.covariance
        return self.memo.get(
            "whitened", (covariance,), lambda: build_whitening(covariance, sets, components=self.blocks)
        )

    @property
    def central(self) -> Float64Array:
        """Central values (N)."""
        return np.concatenate([d.cv for d in self.datasets])


def _build_covariance(card: Card, datasets: Sequence[Dataset], t0: Sequence[Float64Array] | None) -> CovarianceMatrix:
    plain, extra = compute_covariance(datasets, t0), card.covariance.extra
    return plain if extra is None else _use_extra(card, lambda: add_extra(plain, extra, datasets))


def _build_theory_root(card: Card, datasets: Sequence[Dataset]) -> Float64Array | None:
    """Of what pseudo-data fluctuate by beside the errors of the measurements; None for nothing."""
    extra = card.covariance.extra
    if extra is None or not card.covariance.sample_extra:
        return None
    return _use_extra(card, lambda: compute_extra_root(extra, datasets))


def _use_extra(card: Card, use: Callable[[], T]) -> T:
    """What is made of the file of `covariance.extra`; UnfitCardError for its faults."""
    try:
        return use()
    except PackError as error:
        keyed = [Fault("covariance.extra", str(card.covariance.extra), fault) for fault in error.faults]
        raise make_unfit_error(card, keyed) from None


def _find_dataset_components(covariance: CovarianceMatrix, datasets: Sequence[Dataset]) -> list[list[int]]:
    """Blocks of datasets, with those that are correlated next to each other."""
    where = make_slices(datasets)
    return join_components(covariance.columns, where, find_components(covariance.columns, where))


def _get_pack_t0(card: Card, datasets: Sequence[Dataset]) -> list[Float64Array]:
    missing = [d.name for d in datasets if d.t0 is None]
    if missing:
        text = f"the pack has no t0 for {format_names(missing)}; allowed: none, fit, a run folder"
        raise make_unfit_error(card, [Fault("data.t0", "pack", text)])
    return [d.t0 for d in datasets if d.t0 is not None]


def _sample_replica_data(
    card: Card, datasets: Sequence[Dataset], fractions: Sequence[float], ids: Sequence[int],
    theory_root: Float64Array | None,
) -> tuple[Float64Array, BoolMask]:  # fmt: skip
    """Pseudo-data (R, N) and training masks (R, N)."""
    sizes = [len(d.cv) for d in datasets]
    masks = [sample_split(sizes, fractions, make_generator(card.seed, i, Purpose.SPLIT)) for i in ids]
    if card.closure is not None and card.closure.level == 0:
        data = [np.concatenate([d.cv for d in datasets])] * len(ids)
    else:
        generators = [make_generator(card.seed, i, Purpose.NOISE) for i in ids]
        data = [sample_pseudodata(datasets, one, theory_root) for one in generators]
    return np.stack(data), np.stack(masks)


def _get_replica_data(
    cache: Cache, card: Card, datasets: Sequence[Dataset], choices: Sequence[SetChoice], ids: Sequence[int],
    theory_root: Float64Array | None,
) -> tuple[Float64Array, BoolMask]:  # fmt: skip
    """The same, drawn only once."""
    sets = [(d.name, d.operation, d.cv, d.stat, d.sys, d.sys_names, d.sys_is_mult) for d in datasets]
    fractions = [
        choose_fraction(len(d.cv), c.training_fraction, card.data.training_fraction)
        for d, c in zip(datasets, choices, strict=True)
    ]
    key = digest(card.seed, tuple(ids), card.closure, fractions, sets, theory_root)
    return cache.get("replicas", key, lambda: _sample_replica_data(card, datasets, fractions, ids, theory_root))


def _digest_tables(pack: Pack, datasets: Sequence[Dataset]) -> str | None:
    """Digest of all tables; None where one does not say where it comes from."""
    tables = [(d.operation, [t.source for t in d.tables]) for d in datasets]
    positivity = [p.table.source for p in pack.positivity]
    unknown = None in positivity or any(None in sources for _, sources in tables)
    return None if unknown else digest(tables, positivity, pack.x)


def _make_closure_data(
    card: Card, datasets: Sequence[Dataset], truth: Sequence[Float64Array], theory_root: Float64Array | None
) -> tuple[Dataset, ...]:
    """The sets as the law of a closure test would have them, with one draw of noise at level 2."""
    assert card.closure is not None
    rng = make_generator(card.closure.noise, 0, Purpose.TRUTH) if card.closure.level == 2 else None
    return replace_data(datasets, truth, rng, theory_root)


def select_replicas(problem: "Problem", indices: ReplicaIndices) -> "Problem":
    """The problem of some of its replicas."""
    ids = tuple(problem.ids[r] for r in indices)
    return replace(problem, ids=ids, data=problem.data[indices], training=problem.training[indices])


def build_problem(
    card: Card,
    selection: Selection,
    ids: Sequence[int],
    t0_pdf: Float64Array | None = None,
    law: Callable[[Float64Array], Float64Array] | None = None,
) -> Problem:
    """Everything the card says about the data.

    t0_pdf (8, X): fitted flavours on the pack's grid whose predictions scale multiplicative errors; None leaves it to
    `data.t0` (pack or none). law: x (X) -> x f (8, X), truth of a closure test, whose predictions are the pack's t0.
    UnfitCardError where the pack has no t0 predictions though the card asks for them.
    """
    # all draws are made in the order of the card or the pack, so that they do not depend on what correlates the sets
    pack, datasets, truth, t0 = selection.pack, selection.pack.datasets, None, None
    theory_root = _build_theory_root(card, datasets)
    if law is not None:
        truth = predict_sets(datasets, law(pack.x))
        datasets = _make_closure_data(card, datasets, truth, theory_root)
    cache = Cache(card.engine.cache)
    data, training = _get_replica_data(cache, card, datasets, selection.choices, ids, theory_root)
    weights = [np.full(len(d.cv), np.sqrt(c.weight)) for d, c in zip(datasets, selection.choices, strict=True)]
    components = _find_dataset_components(_build_covariance(card, datasets, None), datasets)
    order = [i for component in components for i in component]
    points = np.concatenate([np.arange(s.start, s.stop) for s in (make_slices(datasets)[i] for i in order)])
    datasets = tuple(datasets[i] for i in order)
    ends = np.cumsum([0, *(len(component) for component in components)])
    neighbours = tuple(tuple(range(a, b)) for a, b in pairwise(ends.tolist()))
    if t0_pdf is not None:
        t0 = predict_sets(datasets, t0_pdf)
    elif card.data.t0 == "pack":
        t0 = _get_pack_t0(card, datasets)
    tables, nodes = _digest_tables(pack, datasets), int((pack.x < 1).sum())
    observables = cache.get(
        "observables", tables and digest(tables, nodes, neighbours),
        lambda: compile_observables(datasets, pack.positivity, nodes, neighbours),
    )  # fmt: skip
    if card.positivity.denominators:
        observables = observables.watch_denominators(compute_toy_pdf(pack.x))
    return Problem(
        pack=replace(pack, datasets=datasets), datasets=datasets, observables=observables, blocks=neighbours,
        covariance=_build_covariance(card, datasets, t0), covariance_no_t0=_build_covariance(card, datasets, None),
        truth=None if truth is None else np.concatenate(truth)[points], ids=tuple(ids), data=data[:, points],
        training=training[:, points], root_weight=np.concatenate(weights)[points], cache=cache, tables_digest=tables,
    )  # fmt: skip
