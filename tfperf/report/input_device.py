"""How busy the device is while a training takes its steps as they are: lines, and a curve over time."""

from collections.abc import Mapping
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tfperf.report.profile_devices import describe_use
from tfperf.report.style import FAILED, MEAN, REPLICA, SECOND, escape_math, make_axes_grid


def list_device_lines(found: Mapping[str, Any]) -> list[str]:
    """What a short recording tells of each device, and of copies to it; why there was none."""
    device = found.get("device")
    if device is None:
        return []
    if device["unknown"] is not None:
        return [f"device busy: n/a: {device['unknown']}"]
    return describe_use({"device_use": device["devices"], "nvml": device["nvml"]})


def draw_device(found: Mapping[str, Any]) -> Figure:
    """Share of each part of the recorded time in which a device computes; one curve a device."""
    figure, (axis,) = make_axes_grid(1, 1, width=7.0, height=1.8)
    for use, colour in zip(found["device"]["devices"], cycle((MEAN, SECOND, FAILED, REPLICA)), strict=False):
        edges = np.linspace(0, use["seconds"], len(use["shares"]) + 1)
        label = escape_math(f"{use['device']}: {use['busy']:.0%} of the time")
        axis.stairs(100 * np.array(use["shares"]), edges, color=colour, label=label)
    axis.set_ylim(0, 105)
    axis.set_xlabel("s of the recording")
    axis.set_ylabel("% busy")
    axis.legend(loc="lower right")
    return figure
