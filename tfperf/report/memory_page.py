"""The page of a memory study: stages as bars, the law with its points, a text for a paper, lines for a queue."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tfperf.report.memory import DEVICES, list_lines, merge_steps
from tfperf.report.memory_log import list_counter_lines, list_log_lines
from tfperf.report.memory_unit import SAMPLES, use_unit
from tfperf.report.numbers import MISSING, format_bytes, format_seconds
from tfperf.report.page import render_details, render_image, render_page, render_paragraph, render_table
from tfperf.report.proof import estimate_seconds, format_limit
from tfperf.report.static_memory import render_holders
from tfperf.report.style import BAND, FAILED, MEAN, SECOND, apply_style, escape_math, make_axes_grid, to_png
from tfperf.version import VERSION

MB = 1e6
SPARE = 1.1  # times the RAM that was measured, to ask a queue for


def draw_memory(found: Mapping[str, Any], limit: float, unit: Sequence[str] = SAMPLES) -> Figure:
    """Left: what each stage leaves in the device's memory, and needs at most. Right: peaks by batch, and the law."""
    stages = merge_steps(found["stages"])
    figure, (left, right) = make_axes_grid(1, 2, width=11.0, height=max(2.4, 0.22 * len(stages)), left=1.9, wspace=0.4)
    _draw_stages(left, [{**stage, "name": use_unit(stage["name"], unit)} for stage in stages])
    _draw_law(right, found, limit)
    right.set_xlabel("batch" if tuple(unit) == SAMPLES else unit[1])
    return figure


def _draw_stages(axis: Axes, stages: Sequence[Mapping[str, Any]]) -> None:
    rows = np.arange(len(stages))
    now = [(stage["device"] or 0) / MB for stage in stages]
    peaks = [(stage["device_peak"] or 0) / MB for stage in stages]
    axis.barh(rows, now, color=MEAN, height=0.6, label="stays")
    axis.barh(rows, np.subtract(peaks, now), left=now, color=BAND, height=0.6, label="more at the peak")
    axis.set_yticks(rows, [escape_math(stage["name"]) for stage in stages])
    axis.invert_yaxis()
    axis.set_xlabel("MB of the device")
    axis.legend(loc="upper right")


def _draw_law(axis: Axes, found: Mapping[str, Any], limit: float) -> None:
    law, points = found["law"], found["points"]
    axis.plot([p["batch"] for p in points], [p["least"] / MB for p in points], "o", color=MEAN, ms=3, label="peaks")
    if law is not None:
        batches = np.linspace(law["batches"][0], max(p["batch"] for p in points), 50)
        axis.plot(batches, (law["fixed"] + law["per_sample"] * batches) / MB, color=SECOND, label="law")
        at, largest = law["at_largest"], found["largest"]["batch"]
        if at["low"] is not None:
            ends = [[(at["bytes"] - at["low"]) / MB], [(at["high"] - at["bytes"]) / MB]]
            axis.errorbar([largest], [at["bytes"] / MB], yerr=ends, color=SECOND, capsize=3, label="95 % interval")
    axis.axhline(limit / MB, color=FAILED, linewidth=0.8, label="limit")
    for end in found["ends"]:
        axis.axvline(end["batch"], color=FAILED, linewidth=0.6, linestyle=":")
    axis.set_ylabel("MB at the peak")
    axis.legend(loc="lower right")


def render_memory(report: Mapping[str, Any]) -> str:
    """The page, from the report of a study."""
    room, unit, sections = report["room"], report.get("unit", SAMPLES), []
    for mode, found in report["modes"].items():
        with apply_style():
            image = render_image(to_png(draw_memory(found, room["limit"], unit)), "Dotted: what failed.")
        lines = "".join(render_paragraph(use_unit(line, unit)) for line in list_lines(mode, found))
        rows = [
            (use_unit(stage["name"], unit),
             *(format_bytes(stage[key]) for key in ("device", "device_peak", "ram", "ram_peak")),
             format_seconds(stage["seconds"])) for stage in merge_steps(found["stages"])
        ]  # fmt: skip
        table = render_table(("stage", "device", "its peak", "RAM", "its peak", "time"), rows)
        if (proof := found["proof"]) is not None:
            log = (*list_log_lines(proof, room), *list_counter_lines(proof))
            table += render_table((use_unit(f"a process of batch {proof['batch']}", unit), ""), log)
        texts = render_details("For a paper", use_unit(describe_for_paper(report, mode), unit))
        texts += render_details("For a queue", "\n".join(list_queue_lines(report, mode)))
        sections.append((mode, f"Mode {mode}", lines + image + table + texts))
        if "held" in found:
            sections.append((f"{mode}-held", f"Mode {mode}: who holds it", render_holders(found["held"], unit)))
    head = render_paragraph(f"Memory of {DEVICES[room['device']]}, budget {format_bytes(room['budget'])}.")
    head += "".join(map(render_paragraph, report.get("notes", ())))
    return render_page(report["title"] or "memory", head, sections)


def describe_for_paper(report: Mapping[str, Any], mode: str) -> str:
    """What was done and found, in words."""
    room, found = report["room"], report["modes"][mode]
    largest, law = found["largest"], found["law"]
    text = (
        f"Memory was measured with tfperf {VERSION} on {DEVICES[room['device']]}, mode {mode}, "
        f"in {found['processes']} fresh processes. "
    )
    if law is not None:
        text += (
            f"Between batches of {law['batches'][0]} and {law['batches'][-1]} samples the peak lay on a line of "
            f"{law['fixed'] / MB:.4g} MB, and {law['per_sample'] / MB:.4g} MB for each sample. "
        )
    return text + (
        f"Within {format_bytes(room['budget'])}, of which {room['margin']:.0%} stayed free, batches of "
        f"{largest['batch']} samples passed in {largest['passes']} of {largest['passes']} processes."
    )


def list_queue_lines(report: Mapping[str, Any], mode: str) -> list[str]:
    """What to ask SLURM and SGE for, so that the largest batch runs: the most RAM that was seen, of SGE, whose h_vmem
    limits the address space, that, and a tenth more; time for all of the card's work, where it is known how much."""
    found = report["modes"][mode]
    seen = [point["ram_peak"] for point in found["points"] if point["ram_peak"] is not None]
    if not seen:
        return ["RAM: n/a on this system"]
    gigabytes = int(np.ceil(SPARE * max(seen) / 1e9))
    addresses = (found["proof"] or {}).get("address_space")
    gpu = report["room"]["device"] == "gpu"
    time = None if found["proof"] is None else estimate_seconds(found["proof"], mode)
    limit, told = (
        (None, f"{MISSING}, the number of samples is unknown") if time is None else (format_limit(time[0]), time[1])
    )
    whole = gigabytes if addresses is None else int(np.ceil(SPARE * addresses / 1e9))
    slot = -(-whole // report["cores"])  # SGE multiplies what a job asks for by its slots
    return [
        f"#SBATCH --mem={gigabytes}G --cpus-per-task={report['cores']}{' --gres=gpu:1' if gpu else ''}"
        + (f" --time={limit}" if limit else ""),
        f"#$ -l h_vmem={slot}G -pe smp {report['cores']}{' -l gpu=1' if gpu else ''}"
        + (f" -l h_rt={limit}" if limit else ""),
        *([] if addresses is None else [f"# h_vmem limits the address space: {format_bytes(addresses)} were taken"]),
        f"# time limit: {told}",
    ]
