"""Preprocessing exponents: the fitted flavours and the ranges their exponents are drawn from."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic.dataclasses import dataclass

from tfperf.runcard.faults import Fault, refuse
from tfperf.runcard.types import STRICT

Flavour = Literal["sigma", "g", "v", "v3", "v8", "t3", "t8", "t15"]
FITTED: tuple[Flavour, ...] = ("sigma", "g", "v", "v3", "v8", "t3", "t8", "t15")
VALENCE: tuple[Flavour, ...] = ("v", "v3", "v8")
Exponent = Annotated[float, Field(ge=-20, le=20)]


def _refuse_descending(pair: tuple[float, float]) -> tuple[float, float]:
    if pair[0] > pair[1]:
        refuse([Fault("", list(pair), "must be [low, high] with low <= high")])
    return pair


Range = Annotated[tuple[Exponent, Exponent], AfterValidator(_refuse_descending)]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Exponents:
    """Ranges that the preprocessing exponents of x^(1-alpha) (1-x)^beta are drawn from, one flavour."""

    alpha: Range = Field(description="[low, high] of the exponent at small x")
    beta: Range = Field(description="[low, high] of the exponent at large x")


def make_default_exponents() -> dict[Flavour, Exponents]:
    """Ranges of the NNPDF4.0 fits (arXiv:2109.02653, evolution basis)."""
    ranges: dict[Flavour, tuple[tuple[float, float], tuple[float, float]]] = {
        "sigma": ((1.089, 1.119), (1.475, 3.119)),
        "g": ((0.7504, 1.098), (2.814, 5.669)),
        "v": ((0.479, 0.7384), (1.549, 3.532)),
        "v3": ((0.1073, 0.4397), (1.733, 3.458)),
        "v8": ((0.5507, 0.7837), (1.516, 3.356)),
        "t3": ((-0.4506, 0.9305), (1.745, 3.424)),
        "t8": ((0.5877, 0.8687), (1.522, 3.515)),
        "t15": ((1.089, 1.141), (1.492, 3.222)),
    }
    return {f: Exponents(alpha=ranges[f][0], beta=ranges[f][1]) for f in FITTED}


def complete_exponents(given: Mapping[Flavour, Exponents]) -> dict[Flavour, Exponents]:
    """All fitted flavours in their order: the given ranges, the default ones for the rest."""
    defaults = make_default_exponents()
    return {f: given.get(f, defaults[f]) for f in FITTED}


def check_exponents(exponents: Mapping[Flavour, Exponents]) -> Iterator[Fault]:
    """Ranges for which an integral diverges.

    x f(x) goes as x^(1-alpha) at small x: the number of valence quarks, the integral of f, needs alpha < 1; every
    parton's share of the momentum, the integral of x f, needs alpha < 2. At x = 1 beta must not be negative.
    """
    for flavour, ranges in exponents.items():
        limit, what = (1, "quark number") if flavour in VALENCE else (2, "momentum")
        if ranges.alpha[1] >= limit:
            text = f"must stay below {limit}, or the {what} integral of {flavour} diverges at x = 0"
            yield Fault(f"exponents.{flavour}.alpha", list(ranges.alpha), text)
        if ranges.beta[0] < 0:
            text = f"must not be negative, or {flavour} diverges at x = 1"
            yield Fault(f"exponents.{flavour}.beta", list(ranges.beta), text)
