"""What a fit of replicas prints at its end."""

from collections.abc import Mapping
from typing import Any

from tfperf.report.numbers import format_figure
from tfperf.workloads.keras.replicas.settings import name_status


def describe_ensemble(summary: Mapping[str, Any]) -> list[str]:
    """Lines from its report.json."""
    count, best, epochs = summary["replicas"], summary["best"], summary["epochs"]
    settings = summary.get("settings", {})  # reports of earlier versions have none
    statuses = ", ".join(f"{number} {name_status(name, settings)}" for name, number in count["by_status"].items())
    lines = [f"replicas: {count['usable']} of {count['total']} usable ({statuses})"]
    if count["failed"]:
        lines.append(f"broken: {', '.join(map(str, count['failed']))}; --retry-failed begins them anew")
    if best["median"] is not None:
        least, middle, most = (format_figure(best[name]) for name in ("least", "median", "most"))
        lines.append(f"best {summary['monitored']}: {middle} in the median, {least} to {most}")
        least, most = (f"{epochs[name]:.0f}" for name in ("least", "most"))
        lines.append(f"epochs: {least}" if least == most else f"epochs: {least} to {most}")
    choices = summary["choices"]
    compiled = "XLA" if choices["xla"] else "graph"
    lines += [f"not stacked: {reason}" for reason in summary["not_stacked"]]
    return [*lines, f"form: {choices['form']}, {compiled}, {choices['steps_per_call']} steps per compiled call"]
