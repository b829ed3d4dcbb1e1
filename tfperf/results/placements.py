"""What a sweep over placements found, a row for each point. Times of phases in milliseconds a step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Scaling = Literal["strong", "weak"]
ROWS = "placements.json"  # of a sweep's folder: the rows
ALONE, IN_TURN, AT_ONCE = "alone", "in_turn", "at_once"  # ways to take forward passes


@dataclass(frozen=True)
class Estimate:
    """A figure and the limits that hold it with 95 % probability; None: one repeat tells nothing of chance."""

    value: float
    low: float | None = None
    high: float | None = None
    of: str = ""  # what the figure is, and what it is drawn from


@dataclass(frozen=True)
class PlacementRow:
    """One point: a placement on a number of devices. None: not measured.

    A point has figures only where the graphs that ran prove its placement; `proved`: None where no proof was made;
    repeats: trials that succeeded.

    placement: the swept values but for devices, batch and scaling. group: rows of the same one did like work: strong
    scaling the same batches in all, weak scaling batches of the same lengths on each device, else the same batches on
    as many devices. contest: rows of the same one did the same work in all, and can be weighed against each other.
    speedup: examples per second over those of one device with this placement at like work; efficiency: that over
    the devices; against_best: over the best one device's; against_fastest: over those of the row `beside`, which is the
    fastest of the contest, or one that chance alone cannot make faster than this.
    """

    values: Mapping[str, Any]
    placement: str
    repeats: int
    errors: tuple[str, ...] = ()
    proved: bool | None = None
    setting: str = ""  # swept values that change what is computed
    scaling: Scaling | None = None
    group: str = ""
    contest: str = ""
    devices: int | None = None
    logical: bool | None = None
    batch: int | None = None  # examples on a device
    pairs: int | None = None  # examples in a step
    columns: float | None = None  # of a batch, mean over steps and devices
    words: float | None = None  # of a step, without padding
    padding_share: float | None = None
    straggler_waste: float | None = None
    ms_per_step: Estimate | None = None
    processor_ms: Estimate | None = None  # of a step, of this machine's process
    words_per_second: Estimate | None = None
    pairs_per_second: Estimate | None = None
    speedup: Estimate | None = None
    efficiency: Estimate | None = None
    against_best: Estimate | None = None
    against_fastest: Estimate | None = None
    beside: str = ""  # the name of a row
    repeats_needed: int | None = None  # for a speed-up's interval of 10 %; None: it is, or one tells nothing
    left_out: int = 0  # samples of all repeats in which something was traced
    diverged: bool = False  # whether a trial's losses are no numbers
    merge: str = ""
    kernels: Mapping[str, Any] = field(default_factory=dict)
    phases: Mapping[str, Any] = field(default_factory=dict)  # as place/tracing.py gives them
    places: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    copies: Mapping[str, Sequence[float]] = field(default_factory=dict)  # bytes of a step: sent, needed at most
    bound: Mapping[str, Any] = field(default_factory=dict)  # as the workload gives it: ceilings, terms, bound_ms
    growth: float | None = None  # of the forward pass over that of one device
    forward: Mapping[str, Any] = field(default_factory=dict)  # as the workload gives it: forward passes alone, at once
    memory: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Exp1 on 2 devices.

        >>> PlacementRow({}, "Exp1", repeats=3, devices=2).name
        'Exp1 on 2 devices'
        """
        return f"{self.placement} on {self.devices} device{'' if self.devices == 1 else 's'}"


@dataclass(frozen=True)
class ForwardGrowth:
    """What a forward pass on every device at once takes over one on one device alone, by the clock, at equal work.

    growth is the product of the three others, which are None where the devices are no CPUs. sharing: passes over the
    cores that they keep at work, against one pass; slowing: processor time of the passes at once over that of the same
    in turn; host: processor time of the passes in turn over that of as many passes of a graph for one device.
    cores: at work for one pass, and for all at once. trials: that were measured; intervals are over them.
    """

    devices: int
    batch: int
    columns: int
    trials: int
    alone_ms: float
    growth: Estimate
    sharing: Estimate | None = None
    slowing: Estimate | None = None
    host: Estimate | None = None
    cores: tuple[float, float] | None = None


@dataclass(frozen=True)
class Answers:
    """What a sweep tells beside its rows. bucketing: what a benchmark of it concludes; None: there is none."""

    growth: Sequence[ForwardGrowth] = ()
    bucketing: Sequence[str] | None = None
