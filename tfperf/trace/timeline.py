"""Operations in the order in which they ran, for pictures and viewers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tfperf.trace.operations import Operations
from tfperf.trace.planes import Events
from tfperf.trace.steps import Steps


@dataclass(frozen=True)
class Timeline:
    """Operations as they ran, in order (k): lane, begin and end in ns, phase, name; the last two as indices.

    `lanes`: device, thread or stream.
    """

    lanes: tuple[tuple[str, str], ...]
    lane: NDArray[np.intp]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    phase: NDArray[np.intp]
    name: NDArray[np.intp]
    names: tuple[str, ...]
    steps: Steps


def make_timeline(
    events: Events, operations: Operations, devices: NDArray[np.str_], mask: NDArray[np.bool_],
    phase_index: NDArray[np.intp], steps: Steps,
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
        lanes, lane, events.begin[rows], events.end[rows], phase_index[rows], operations.index[rows], names, steps
    )
