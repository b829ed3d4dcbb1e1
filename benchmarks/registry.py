"""What a benchmark is: a claim, a sweep and a unit of work, measured in one run on one machine."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tfperf.measure.confidence import estimate_geometric_mean

Row = dict[str, Any]


@dataclass(frozen=True)
class Benchmark:
    """One benchmark: its measurement yields a row for each point of the sweep."""

    name: str
    claim: str
    sweep: str
    unit: str
    measure: Callable[..., Iterator[Row]]


REGISTRY: dict[str, Benchmark] = {}


def register_benchmark(name: str, claim: str, sweep: str, unit: str) -> Callable[[Callable[..., Iterator[Row]]], None]:
    """Register a measurement."""

    def register(measure: Callable[..., Iterator[Row]]) -> None:
        REGISTRY[name] = Benchmark(name, claim, sweep, unit, measure)

    return register


def make_ratio_columns(name: str, above: Sequence[float], below: Sequence[float]) -> Row:
    """Geometric mean of the rounds' ratios, and the limits of its 95 % interval where there are several rounds."""
    ratio = estimate_geometric_mean([a / b for a, b in zip(above, below, strict=True)])
    return {name: ratio.value, f"{name}_low": ratio.low, f"{name}_high": ratio.high}
