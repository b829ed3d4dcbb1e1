"""Two profiles compared: what got slower, by how much more than chance.

Captures of one program differ by more than the calls of one capture tell, for scatter lies between processes: each
capture is one sample.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any, Literal

import numpy as np
from scipy.special import stdtrit  # scipy.stats takes half a second to load

from tfperf.arrays import BoolMask, Float64Array

CHANCE = 0.975  # that a change by chance alone is below what is called noise
SMALL = 0.01  # of the time from step to step: what a part has to change by to be told
FAR, MANY, LEAST = 20.0, 5, 0.002  # median deviations beyond which a capture is left out, of so many; least, in shares
Verdict = Literal["slower", "faster", "same", "unknown"]
Record = Mapping[str, Any]
PERIOD = "from step to step"


@dataclass(frozen=True)
class TimeChange:
    """ms a step of something (`kind`: step, gap, phase, ...) before and now; `noise`: ms that chance may do.

    left_out: captures so far from the others that they were not counted, in words.
    """

    kind: str
    name: str
    before: float
    now: float
    noise: float
    verdict: Verdict
    left_out: tuple[str, ...] = ()

    @property
    def difference_ms(self) -> float:
        """The change in ms."""
        return self.now - self.before


@dataclass(frozen=True)
class Difference:
    """The time from step to step, and what it is made of, the largest changes first.

    limit: how much longer a step may take to be no worse, 0.05 for 5 %.
    """

    step: TimeChange
    changes: tuple[TimeChange, ...]
    limit: float

    @property
    def worse(self) -> bool:
        """Whether a step takes longer by more than chance may do, and by more than the limit."""
        return self.step.verdict == "slower" and self.step.difference_ms > self.limit * self.step.before


def compare(now: Record, before: Record, limit: float, paired: bool = False) -> Difference:
    """Two records of profiles; `limit`: how much longer a step may take, 0.05 for 5 %.

    paired: captures of the two were made in turn, so that what changes the machine changes both. By Student's t of the
    pairs' differences, else by Welch's t (B. L. Welch, Biometrika 34, 1947); of one capture a side nobody can tell.
    """
    names = dict.fromkeys([("step", PERIOD), *_list_names(before["series"]), *_list_names(now["series"])])
    one, two = ({key: _list_samples(record["series"], *key) for key in names} for record in (before, now))
    step, *changes = (_compare_samples(*key, one[key], two[key], paired) for key in names)
    changes = [_drop_small(change, SMALL * step.before) for change in changes]
    return Difference(step, tuple(sorted(changes, key=lambda change: -abs(change.difference_ms))), limit)


def _list_names(series: Sequence[Record]) -> Iterator[tuple[str, str]]:
    """Kinds and names of all that captures are made of."""
    return ((kind, name) for part in series for kind in part for name in part[kind])


def _list_samples(series: Sequence[Record], kind: str, name: str) -> Float64Array:
    """ms of each capture; what one has none of takes none of its time."""
    return np.array([part.get(kind, {}).get(name, 0.0) for part in series])


def _drop_small(change: TimeChange, least: float) -> TimeChange:
    if change.verdict in ("slower", "faster") and abs(change.difference_ms) < least:
        return TimeChange(change.kind, change.name, change.before, change.now, change.noise, "same", change.left_out)
    return change


def _compare_samples(kind: str, name: str, a: Float64Array, b: Float64Array, paired: bool) -> TimeChange:
    if paired:
        near = find_near(b - a, a)
        left_out = [f"turn {i + 1}: {a[i]:.4g} and {b[i]:.4g} ms" for i in np.flatnonzero(~near)]
        a, b = a[near], b[near]
        noise = _compute_interval(len(a) - 1, float(np.var(b - a, ddof=1)) / len(a) if len(a) > 1 else inf)
    else:
        sides = {"before": (a, find_near(a, a)), "now": (b, find_near(b, b))}
        left_out = [f"{side}: {ms:.4g} ms" for side, (all_ms, near) in sides.items() for ms in all_ms[~near]]
        a, b = (all_ms[near] for all_ms, near in sides.values())
        noise = _compute_welch_interval(a, b)
    before, now = float(a.mean()), float(b.mean())
    verdict: Verdict = "unknown"
    if isfinite(noise):
        verdict = "same" if abs(now - before) <= noise else "slower" if now > before else "faster"
    return TimeChange(kind, name, before, now, noise, verdict, tuple(left_out))


def find_near(samples: Float64Array, level: Float64Array) -> BoolMask:
    """Which samples (n) are no outliers: within FAR median deviations of the median, or of LEAST of a `level` (n).

    Of fewer than MANY all are. So far out lies one of ten thousand of five normal samples.
    """
    deviation = np.abs(samples - np.median(samples))
    scale = max(1.4826 * float(np.median(deviation)), LEAST * float(np.median(level)))
    near: BoolMask = deviation <= (FAR * scale if len(samples) >= MANY else np.inf)
    return near


def _compute_welch_interval(a: Float64Array, b: Float64Array) -> float:
    """Half the width of the interval of the difference of two means."""
    if min(len(a), len(b)) < 2:
        return inf
    one, two = (float(np.var(side, ddof=1)) / len(side) for side in (a, b))
    if one + two == 0:
        return 0.0
    degrees = (one + two) ** 2 / (one**2 / (len(a) - 1) + two**2 / (len(b) - 1))
    return _compute_interval(degrees, one + two)


def _compute_interval(degrees: float, variance: float) -> float:
    return float(stdtrit(degrees, CHANCE)) * variance**0.5 if degrees >= 1 else inf
