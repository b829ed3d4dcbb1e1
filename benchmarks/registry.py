"""What a benchmark is: a claim, a sweep and a unit of work, measured in one run on one machine."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

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


def benchmark(name: str, claim: str, sweep: str, unit: str) -> Callable[[Callable[..., Iterator[Row]]], None]:
    """Register a measurement."""

    def register(measure: Callable[..., Iterator[Row]]) -> None:
        REGISTRY[name] = Benchmark(name, claim, sweep, unit, measure)

    return register
