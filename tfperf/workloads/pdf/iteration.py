"""The card of the next fit after a finished one: ranges of exponents and t0 predictions that its results ask for.

They stand still where no end of a range moves by more than a fifth of the range's width, and t0 by no more than a
tenth of the errors of the data. A hundred replicas of the shipped card settled below that; chance alone moves the ends
of a range over ten further, so that few replicas seldom stand still.
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
from tfperf.workloads.pdf.results.effective_exponents import EXPONENT_X, compute_exponents, compute_ranges
from tfperf.workloads.pdf.results.postfit import find_passing
from tfperf.workloads.pdf.results.record import FitResult
from tfperf.workloads.refinement import Refinement

FEWEST = 2  # replicas that pass the vetoes
MANY = 50  # replicas, below which a note says that chance moves the ends of ranges
MOST_MOVE = 0.2  # of a range's width
MOST_T0 = 0.1  # of a measurement's error, root mean square over the points
NARROWEST = 0.01  # of a range, to measure a move by
CARD_LIMITS = {"alpha": (-20.0, 1.99), "beta": (0.0, 20.0)}  # just inside what a card may say
MOST_VALENCE = 0.99  # alpha, where the quark number must not diverge
DIGITS = 4


def refine_card(card: Card, run: Path, before: Path | None) -> Refinement:
    """The card with ranges and t0 of the finished fit of `card` in `run`; before: the fit that its t0 is from.

    Both are of the replicas that pass postfit's vetoes. A closure test keeps its t0, which is its law's. Raises:
    TrainingError where fewer than two pass, RunDirectoryError for damaged results.
    """
    from tfperf.measure.quiet import drop_native_logs

    with drop_native_logs():
        from tfperf.workloads.pdf.evaluate import evaluate_pdf

    result = store.read(run / RESULTS)
    passed = find_passing(result)
    if passed.sum() < FEWEST:
        told = f"{passed.sum()} of {len(passed)} replicas pass postfit; ranges of exponents need {FEWEST} at least"
        raise TrainingError(f"{run}: {told}")
    pdf = evaluate_pdf(card, {name: w[passed] for name, w in result.weights.items()}, EXPONENT_X)
    refined = _make_exponents(compute_ranges(compute_exponents(pdf)))
    moves, notes = _list_range_moves(card.model.exponents, refined), list[str]()
    if passed.sum() < MANY:
        notes.append(f"{run.name}: ranges are of {passed.sum()} replicas; chance moves those of fewer than {MANY}")
    data = card.data
    if card.closure is None:
        data = replace(data, t0=str(run.resolve()))
        moves.append(_compare_t0(card, result, run, before))
        if card.data.t0 == "none":
            notes.append(f"{run.name} had no t0, as the card says; those after it have that of the fit before")
    return Refinement(replace(card, data=data, model=replace(card.model, exponents=refined)), moves, notes)


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


def _list_range_moves(before: Mapping[Flavour, Exponents], after: Mapping[Flavour, Exponents]) -> list[Move]:
    """One for each range: the move of that of its ends that moved further, in widths of the new range."""
    moves = []
    for flavour in FITTED:
        for name in ("alpha", "beta"):
            old, new = getattr(before[flavour], name), getattr(after[flavour], name)
            distance = np.max(np.abs(np.subtract(new, old))) / max(new[1] - new[0], NARROWEST)
            key = f"model.exponents.{flavour}.{name}"
            moves.append(Move(key, _format(old), _format(new), float(distance), MOST_MOVE, "of the new width"))
    return moves


def _format(ends: tuple[float, float]) -> str:
    return f"[{ends[0]:g}, {ends[1]:g}]"


def _compare_t0(card: Card, result: FitResult, run: Path, before: Path | None) -> Move:
    """How far the mean predictions moved between two fits, in errors of the measurements."""
    distance = None
    if before is not None:
        sigma = np.concatenate([d.sigma for d in result.datasets])
        old = _average_predictions(store.read(before / RESULTS))
        new = _average_predictions(result)
        distance = float(np.sqrt(np.mean((np.concatenate([new[name] - old[name] for name in new]) / sigma) ** 2)))
    return Move("data.t0", card.data.t0, str(run.resolve()), distance, MOST_T0, "errors of the data")


def _average_predictions(result: FitResult) -> dict[str, Float64Array]:
    """Of the replicas that pass, by dataset: (N)."""
    passed = find_passing(result)
    return {d.name: d.predictions[passed].mean(axis=0) for d in result.datasets}
