"""How long calls take from one to the next, while they are recorded and while they are not."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from statistics import fmean, median

WARM, SETTLE = 2, 12  # calls that compile and warm up; that follow a recording before all is as before
FEWEST = 4  # periods without recording from which one can say how long they are
Runs = Sequence[Sequence[float]]  # periods that follow one another, seconds


@dataclass(frozen=True)
class CallTimes:
    """ms from call to call, medians and means, of those that are recorded and of others; None: too few to say."""

    recorded_ms: float | None
    unrecorded_ms: float | None
    recorded_mean_ms: float | None
    unrecorded_mean_ms: float | None


def measure_calls(begins: Sequence[float], skip: int, calls: int, per_epoch: float | None) -> CallTimes:
    """By when each call begins, seconds; `skip` calls come before the `calls` that are recorded.

    per_epoch: how many calls an epoch has; means are of whole epochs then.
    """
    recorded, plain = [_list_periods(begins, skip, skip + calls - 1)], _list_unrecorded(begins, skip, calls)
    return CallTimes(
        _compute_median(recorded), _compute_median(plain), compute_mean(recorded, per_epoch),
        compute_mean(plain, per_epoch),
    )  # fmt: skip


def _list_unrecorded(begins: Sequence[float], skip: int, calls: int) -> Runs:
    """Periods of the calls before a recording and after it, but for those that compile and warm up.

    The calls right after a recording are slower, for it has used caches and memory; they count where there are no
    others.
    """
    until, after = skip - 1, skip + calls  # what starts and ends the recording lies in none
    first, last = _list_periods(begins, WARM, until), _list_periods(begins, after, len(begins) - 1)
    return next((one for one in ([first, last[SETTLE:]], [first, last]) if sum(map(len, one)) >= FEWEST), [])


def _compute_median(runs: Runs) -> float | None:
    every = list(chain(*runs))
    return 1e3 * median(every) if every else None


def compute_mean(runs: Runs, per_epoch: float | None) -> float | None:
    """Their mean in ms, of each run's whole epochs where epochs are known; None: there is none.

    >>> compute_mean([[0.25, 0.25, 1.0, 0.25], [0.25, 0.25, 1.0]], 3.0)
    500.0
    """
    epoch = max(round(per_epoch or 1), 1)
    whole = [second for run in runs for second in run[: len(run) // epoch * epoch]]
    return 1e3 * fmean(whole) if whole else None


def _list_periods(begins: Sequence[float], first: int, last: int) -> list[float]:
    """Seconds from call to call, of the calls first to last - 1."""
    return [b - a for a, b in pairwise(begins[first : max(last, first) + 1])]
