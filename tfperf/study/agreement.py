"""Whether two forms of a fit computed the same losses. R replicas."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

ROUNDING = 1e-5  # relative, in float64 after one step: forms differ in the order of sums, which a step amplifies

Losses = Mapping[str, Sequence[float]]


def agreement(record: Mapping[str, Any], reference: Mapping[str, Any], tolerance: float = 0.0) -> dict[str, Any]:
    """How far the losses of a form are from those of its reference, and how far they may be.

    Exact forms: the largest relative difference of any loss. With a tolerance on chi2 per point, the largest difference
    of training and validation chi2 per point in units of max(1, chi2 per point). Both records hold `losses` (by name, R
    each) and `points` (training and validation, R each).
    """
    got, want = record["losses"], reference["losses"]
    if tolerance > 0:
        found = [_per_point(got[n], want[n], reference["points"][n]) for n in ("training", "validation")]
    else:
        found = [_relative(got[name], want[name]) for name in want]
    # a comparison with nan is false: max would lose it
    worst = max(found) if all(map(math.isfinite, found)) else None
    allowed = tolerance or ROUNDING
    return {"worst": worst, "allowed": allowed, "agrees": worst is not None and worst <= allowed}


def _relative(got: Sequence[float], want: Sequence[float]) -> float:
    return _largest([abs(a - b) / abs(b) if b else abs(a) for a, b in zip(got, want, strict=True)])


def _per_point(got: Sequence[float], want: Sequence[float], points: Sequence[int]) -> float:
    return _largest([abs(a - b) / max(n, b, 1) for a, b, n in zip(got, want, points, strict=True)])


def _largest(values: Sequence[float]) -> float:
    return max(values) if all(map(math.isfinite, values)) else math.nan
