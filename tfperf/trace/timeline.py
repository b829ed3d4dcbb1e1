"""Operations in the order in which they ran, for pictures and viewers."""

from dataclasses import dataclass

import numpy as np

from tfperf.arrays import BoolMask, Indices, TextArray, Times
from tfperf.trace.host_rows import HostRow
from tfperf.trace.operations import Operations
from tfperf.trace.planes import Events
from tfperf.trace.steps import Steps


@dataclass(frozen=True)
class Timeline:
    """Operations as they ran, in order (k): lane, begin and end in ns, phase, name; the last two as indices.

    `lanes`: device, thread or stream. `host`: what the host did meanwhile, sort by sort.
    """

    lanes: tuple[tuple[str, str], ...]
    lane: Indices
    begin: Times
    end: Times
    phase: Indices
    name: Indices
    names: tuple[str, ...]
    steps: Steps
    host: tuple[HostRow, ...] = ()


def make_timeline(
    events: Events, operations: Operations, devices: TextArray, mask: BoolMask,
    phase_index: Indices, steps: Steps, host: tuple[HostRow, ...] = (),
) -> Timeline:  # fmt: skip
    """The timeline of the events in the mask, whose phases have the numbers `phase_index`."""
    rows = np.flatnonzero(mask)
    rows = rows[np.argsort(events.begin[rows], kind="stable")]
    every, device = np.unique(devices[rows], return_inverse=True)
    pairs, lane = np.unique(device * len(events.lanes) + events.lane[rows], return_inverse=True)
    lanes = tuple(
        (str(every[pair // len(events.lanes)]), events.lanes[pair % len(events.lanes)].line) for pair in pairs.tolist()
    )
    names = tuple(operation.name for operation in operations.every)
    return Timeline(
        lanes, lane, events.begin[rows], events.end[rows], phase_index[rows], operations.index[rows], names, steps, host
    )
