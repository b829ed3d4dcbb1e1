"""Whether two variants of a training computed the same losses. R replicas."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

ROUNDING = 1e-5  # relative, in float64 after one step: variants differ in the order of sums, which a step amplifies

Losses = Mapping[str, Sequence[float]]


def compare_losses(record: Mapping[str, Any], reference: Mapping[str, Any], tolerance: float = 0.0) -> dict[str, Any]:
    """How far the losses of a variant are from those of its reference, and how far they may be.

    Exact variants: the largest relative difference of any loss. With a tolerance on losses per point, the largest
    difference of those that are sums over points, per point, in units of max(1, loss per point). Both records hold
    `losses` (by name, R each) and `points` (by name of such a loss, R each).
    """
    got, want = record["losses"], reference["losses"]
    if tolerance > 0:
        found = [_compute_per_point(got[n], want[n], reference["points"][n]) for n in reference["points"]]
    else:
        found = [_compute_relative(got[name], want[name]) for name in want]
    # a comparison with nan is false: max would lose it
    worst = max(found) if all(map(math.isfinite, found)) else None
    allowed = tolerance or ROUNDING
    return {"worst": worst, "allowed": allowed, "agrees": worst is not None and worst <= allowed}


def _compute_relative(got: Sequence[float], want: Sequence[float]) -> float:
    return _find_largest([abs(a - b) / abs(b) if b else abs(a) for a, b in zip(got, want, strict=True)])


def _compute_per_point(got: Sequence[float], want: Sequence[float], points: Sequence[int]) -> float:
    return _find_largest([abs(a - b) / max(n, b, 1) for a, b, n in zip(got, want, points, strict=True)])


def _find_largest(values: Sequence[float]) -> float:
    return max(values) if all(map(math.isfinite, values)) else math.nan
