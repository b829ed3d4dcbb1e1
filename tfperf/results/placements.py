"""What a sweep over placements found, a row for each point. Times of phases in milliseconds a step."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Scaling = Literal["alone", "weak", "strong"]


@dataclass(frozen=True)
class Estimate:
    """A figure and the limits that hold it with 95 % probability; None: one repeat tells nothing of chance."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class PlacementRow:
    """One point: a placement on a number of devices. None: not measured.

    placement: the swept values but for devices and batch; scaling: how the batch relates to that of one device with
    the same placement: weak (the same on each device) or strong (the same in all); alone: this is that one device.
    speedup: words per second over those of one device with this placement; against_best: over the best one device's.
    """

    values: Mapping[str, Any]
    placement: str
    repeats: int
    errors: tuple[str, ...] = ()
    devices: int | None = None
    logical: bool | None = None
    batch: int | None = None  # sentence pairs on a device
    scaling: Scaling | None = None
    total_s: Estimate | None = None
    ms_per_step: Estimate | None = None
    words_per_second: Estimate | None = None
    speedup: Estimate | None = None
    against_best: Estimate | None = None
    padding_share: float | None = None
    straggler_waste: float | None = None
    merge: str = ""
    kernels: Mapping[str, Any] = field(default_factory=dict)
    phases: Mapping[str, Any] = field(default_factory=dict)  # as study/spans.py gives them
    places: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    bound: Mapping[str, Any] = field(default_factory=dict)  # as study/ceilings.py gives it
    lost: Mapping[str, float] = field(default_factory=dict)  # ms a step above the bound, by term, the largest first
    growth: float | None = None  # of the forward pass over that of one device
    memory: Mapping[str, Any] = field(default_factory=dict)
