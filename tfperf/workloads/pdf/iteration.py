"""The card of the next fit after a finished one: ranges of exponents and t0 predictions that its results ask for.

What stands still is told by the results' own scatter: with other replicas the ends of a range and the predictions of
the mean PDF would have come out otherwise by their standard errors, so smaller moves mean nothing.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from tfperf.arrays import Float64Array
from tfperf.errors import TrainingError
from tfperf.results.contents import RESULTS
from tfperf.results.moves import Move
from tfperf.workloads.pdf.card import FITTED, Card, Exponents, Flavour
from tfperf.workloads.pdf.card_exponents import VALENCE
from tfperf.workloads.pdf.results import store
from tfperf.workloads.pdf.results.effective_exponents import (
    EXPONENT_X,
    compute_exponents,
    compute_ranges,
    estimate_range_errors,
)
from tfperf.workloads.pdf.results.postfit import veto_replicas
from tfperf.workloads.pdf.results.record import FitResult
from tfperf.workloads.refinement import Refinement

FEWEST = 2  # replicas that pass the vetoes
MOST_ERRORS = 3.0  # standard errors of a move, of any of 32 ends of ranges
MOST_T0 = 0.1  # of a measurement's error, root mean square over the points
CARD_LIMITS = {"alpha": (-20.0, 1.99), "beta": (0.0, 20.0)}  # just inside what a card may say
MOST_VALENCE = 0.99  # alpha, where the quark number must not diverge
DIGITS = 4


def refine_card(card: Card, run: Path, before: Path | None) -> Refinement:
    """The card with ranges and t0 of the finished fit of `card` in `run`; before: the fit that its t0 is from.

    A closure test keeps its t0, which is its law's. Raises: TrainingError where fewer than two replicas pass postfit's
    vetoes, RunDirectoryError for damaged results.
    """
    result = store.read(run / RESULTS)
    exponents = compute_exponents(_evaluate_survivors(card, run, result))
    ranges, errors = compute_ranges(exponents), estimate_range_errors(exponents)
    refined = _make_exponents(ranges)
    moves = _list_range_moves(card.model.exponents, refined, errors)
    data = card.data
    if card.closure is None:
        data = replace(data, t0=str(run.resolve()))
        moves.append(_compare_t0(card, result, run, before))
    return Refinement(replace(card, data=data, model=replace(card.model, exponents=refined)), moves)


def _evaluate_survivors(card: Card, run: Path, result: FitResult) -> Float64Array:
    """x f (R, 8, 4) at EXPONENT_X of the replicas that pass the vetoes."""
    from tfperf.workloads.pdf.evaluate import evaluate_pdf

    passed = np.isin(result.replicas.id, veto_replicas(result).passed)
    if passed.sum() < FEWEST:
        told = f"{passed.sum()} of {len(passed)} replicas pass postfit; ranges of exponents need {FEWEST} at least"
        raise TrainingError(f"{run}: {told}")
    return evaluate_pdf(card, {name: w[passed] for name, w in result.weights.items()}, EXPONENT_X)


def _make_exponents(ranges: Float64Array) -> dict[Flavour, Exponents]:
    """As a card has them: rounded, and within what it may say."""

    def make_range(name: str, flavour: Flavour, ends: Float64Array) -> tuple[float, float]:
        low, high = CARD_LIMITS[name]
        if name == "alpha" and flavour in VALENCE:
            high = MOST_VALENCE
        first, last = (float(f"{end:.{DIGITS}g}") for end in np.clip(ends, low, high))
        return first, last

    def make(flavour: Flavour) -> Exponents:
        alpha, beta = ranges[..., FITTED.index(flavour)]
        return Exponents(alpha=make_range("alpha", flavour, alpha), beta=make_range("beta", flavour, beta))

    return {flavour: make(flavour) for flavour in FITTED}


def _list_range_moves(
    before: Mapping[Flavour, Exponents], after: Mapping[Flavour, Exponents], errors: Float64Array
) -> list[Move]:
    """One for each range: the move of that of its ends that moved further, in standard errors of a difference."""
    moves = []
    for place, flavour in enumerate(FITTED):
        for name, error in zip(("alpha", "beta"), errors[..., place], strict=True):
            old, new = getattr(before[flavour], name), getattr(after[flavour], name)
            scatter = np.sqrt(2) * error + np.abs(new) * 10.0**-DIGITS  # and rounding
            distance = np.max(np.abs(np.subtract(new, old)) / np.maximum(scatter, np.finfo(float).tiny))
            key = f"model.exponents.{flavour}.{name}"
            moves.append(Move(key, _format(old), _format(new), float(distance), MOST_ERRORS, "standard errors"))
    return moves


def _format(ends: tuple[float, float]) -> str:
    return f"[{ends[0]:g}, {ends[1]:g}]"


def _compare_t0(card: Card, result: FitResult, run: Path, before: Path | None) -> Move:
    """How far the mean PDF's predictions moved between two fits, in errors of the measurements."""
    limit, distance = MOST_T0, None
    if before is not None:
        sigma = np.concatenate([d.sigma for d in result.datasets])
        old = {d.name: d.mean for d in store.read(before / RESULTS).datasets}
        move = np.concatenate([d.mean - old[d.name] for d in result.datasets]) / sigma
        distance = float(np.sqrt(np.mean(move**2)))
        good = result.converged
        spread = np.concatenate([d.predictions[good].std(axis=0) for d in result.datasets]) / sigma
        scatter = float(np.sqrt(np.mean(spread**2) * 2 / good.sum()))  # of the difference of two means
        limit = max(MOST_T0, MOST_ERRORS * scatter)
    return Move("data.t0", card.data.t0, str(run.resolve()), distance, limit, "errors of the data")
