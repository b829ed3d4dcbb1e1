"""Two profiles compared: what got slower, by how much more than chance."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import hypot, isfinite
from typing import Any, Literal

from scipy.stats import t as student

CHANCE = 0.975  # that a change by chance alone is below what is called noise
Verdict = Literal["slower", "faster", "same", "unknown"]
Record = Mapping[str, Any]


@dataclass(frozen=True)
class TimeChange:
    """ms a step of something (`kind`: step, gap, phase, ...) before and now; `noise`: ms that chance may do."""

    kind: str
    name: str
    before: float
    now: float
    noise: float
    verdict: Verdict

    @property
    def difference_ms(self) -> float:
        """The change in ms."""
        return self.now - self.before


@dataclass(frozen=True)
class Difference:
    """The time from step to step, and what it is made of, the largest changes first."""

    step: TimeChange
    changes: tuple[TimeChange, ...]
    limit: float

    @property
    def worse(self) -> bool:
        """Whether a step takes longer by more than the limit and by more than chance may do."""
        return self.step.verdict == "slower"


def compare(now: Record, before: Record, limit: float) -> Difference:
    """Two records of profiles; `limit`: how much longer a step may take, 0.05 for 5 %.

    Parts count as slower when their change alone is more than the limit, of the time from step to step.
    """
    allowed = _Thresholds(limit * before["period_ms"], before["noise"]["samples"], now["noise"]["samples"])
    step = _compare_key("step", "from step to step", before, now, "period_ms", allowed)
    changes = [_compare_key("step", "from first to last operation", before, now, "step_ms", allowed)]
    for kind, key in (("phase", "phase"), ("layer", "layer"), ("operation", "name")):
        changes += _compare_tables(kind, _sum_rows(before, kind, key), _sum_rows(now, kind, key), allowed)
    noise = hypot(before["noise"]["period_ms"], now["noise"]["period_ms"])
    key = "gaps_ms_per_step"
    changes.append(_compare_times("gap", "between calls", before[key], now[key], noise, allowed))
    return Difference(step, tuple(sorted(changes, key=lambda change: -abs(change.difference_ms))), limit)


def _compare_key(kind: str, name: str, before: Record, now: Record, key: str, allowed: "_Thresholds") -> TimeChange:
    noise = hypot(before["noise"][key], now["noise"][key])
    return _compare_times(kind, name, before[key], now[key], noise, allowed)


def _compare_times(kind: str, name: str, before: float, now: float, error: float, allowed: "_Thresholds") -> TimeChange:
    noise = allowed.sigmas * error if error else 0.0
    if not isfinite(noise):
        return TimeChange(kind, name, before, now, noise, "unknown")
    beyond = abs(now - before) - noise
    verdict: Verdict = "same" if beyond <= allowed.ms else "slower" if now > before else "faster"
    return TimeChange(kind, name, before, now, noise, verdict)


class _Thresholds:
    """How much may change, and how many standard errors chance may do with so few samples (Student's t)."""

    def __init__(self, ms: float, *samples: int) -> None:
        self.ms = ms
        self.sigmas = float(student.ppf(CHANCE, min(samples) - 1)) if min(samples) > 1 else float("inf")


def _sum_rows(record: Record, kind: str, key: str) -> dict[str, tuple[float, float]]:
    """By device and name: ms a step, and its standard error."""
    out: dict[str, tuple[float, float]] = {}
    for row in record[f"{kind}s_by_device"] if kind == "phase" else record[f"{kind}s"]:
        name = " ".join(filter(None, (row["device"], row.get("phase") if kind == "layer" else "", row[key])))
        ms, noise = out.get(name, (0.0, 0.0))
        out[name] = ms + row["ms_per_step"], hypot(noise, row["noise_ms"])
    return out


def _compare_tables(
    kind: str, before: Mapping[str, tuple[float, float]], now: Mapping[str, tuple[float, float]], allowed: "_Thresholds"
) -> Iterator[TimeChange]:
    nothing = 0.0, 0.0
    for name in dict.fromkeys([*before, *now]):
        (a, first), (b, second) = before.get(name, nothing), now.get(name, nothing)
        yield _compare_times(kind, name, a, b, hypot(first, second), allowed)
