"""How long calls take from one to the next, while they are recorded and while they are not."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

WARM, SETTLE = 2, 12  # calls that compile and warm up; that follow a recording before all is as before
FEWEST = 4  # periods without recording from which one can say how long they are


def list_recorded(begins: Sequence[float], skip: int, calls: int) -> list[float]:
    """Seconds from call to call, by when each begins; `skip` calls come before the `calls` that are recorded."""
    return _list_periods(begins, skip, skip + calls - 1)


def list_unrecorded(begins: Sequence[float], skip: int, calls: int) -> list[float]:
    """The same of the others, but for those that compile and warm up; empty: too few to say.

    The calls right after a recording are slower, for it has used caches and memory; they count where there are no
    others.
    """
    until, after = skip - 1, skip + calls  # what starts and ends the recording lies in none
    first, last = _list_periods(begins, WARM, until), _list_periods(begins, after, len(begins) - 1)
    return next((one for one in ([*first, *last[SETTLE:]], [*first, *last]) if len(one) >= FEWEST), [])


def compute_mean(seconds: Sequence[float], per_epoch: float | None) -> float | None:
    """Their mean in ms, of whole epochs where epochs are known; None: there is none.

    >>> compute_mean([0.25, 0.25, 1.0, 0.25], 3.0)
    500.0
    """
    epoch = max(round(per_epoch or 1), 1)
    whole = seconds[: len(seconds) // epoch * epoch]
    return 1e3 * fmean(whole) if whole else None


def _list_periods(begins: Sequence[float], first: int, last: int) -> list[float]:
    """Seconds from call to call, of the calls first to last - 1."""
    return [b - a for a, b in pairwise(begins[first : max(last, first) + 1])]
