"""The page of a sample of a prediction: rates by batches, workers and units, and the time that all records take."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tfperf.console.stages import format_interval
from tfperf.report.numbers import MISSING, format_rate
from tfperf.report.page import render_image, render_page, render_paragraph, render_table, render_tiles
from tfperf.report.style import FAILED, MEAN, SECOND, apply_style, escape_math, make_axes_grid, to_png

KINDS = {
    "batch": ("Batches", "how many records go through the model at once, one worker"),
    "workers": ("Workers", "workers of each device"),
    "unit": (
        "Units",
        "records that are handed out at a time, in batches of at most as many, one worker of each device",
    ),
}
HEADER = ("", "records/s [95 %]", "standard deviation", "useful share")


def render_sample(report: Mapping[str, Any]) -> str:
    """The page, from sample.json's content."""
    lines = list_sample_lines(report)
    head = render_tiles(_list_tiles(report)) + "".join(map(render_paragraph, lines))
    sections = [
        (kind, title, _render_kind(report, kind, words)) for kind, (title, words) in KINDS.items()
        if _select(report, kind)
    ]  # fmt: skip
    if report["devices"]:
        rows = [(one["device"], *_format_scatter(one)) for one in report["devices"]]
        body = render_table(("device", "records/s while it computes", "standard deviation"), rows)
        sections.append(("devices", "Devices", body))
    return render_page(f"{report['title'] or 'prediction'}: sample", head, sections)


def list_sample_lines(report: Mapping[str, Any]) -> list[str]:
    """What was found, line by line."""
    lines = []
    for one in report["devices"]:
        mean, deviation = _format_scatter(one)
        lines.append(f"{one['device']}: {mean} records/s while it computes, standard deviation {deviation}")
    for one in report["groups"]:
        lines.append(f"{_name_group(one)}: {_describe_group(one)}")
    lines.append(f"all but the sizes of batches were measured with batches of {report['rule_words']}")
    return [*lines, *_list_conclusions(report)]


def _name_group(one: Mapping[str, Any]) -> str:
    kinds = {"batch": "batches of {}", "workers": "workers per device: {}", "unit": "units of {}",
             "own": "workers {}", "alone": "one process without a queue"}  # fmt: skip
    return kinds.get(one["kind"], "{}").format(one["words"])


def _describe_group(one: Mapping[str, Any]) -> str:
    if one["mean"] is None:
        return one["errors"][0] if one["errors"] else "too few batches to tell a rate"
    told = f"{_format_rate(one)} records/s"
    return f"{told}; once: {one['errors'][0]}" if one["errors"] else told


def _list_conclusions(report: Mapping[str, Any]) -> list[str]:
    """How long all records take, what limits that, and what would be faster."""
    if report["seconds"] is None:
        return ["how long all records take cannot be told"]
    found, rate = report["seconds"], report["rate"]["value"]
    lines = [
        f"{report['total']} records take {format_interval(found['value'], found['low'], found['high'])} at "
        f"{format_rate(rate)} records/s, by {report['workers']} workers, as the card says; starting these and writing "
        "rows is not counted"
    ]  # fmt: skip
    if report["failed"]:
        lines.append(f"{report['failed']} of {report['sampled']} records of a sample failed")
    if report["total"] > report["records"] == report["sampled"]:
        lines.append(
            f"a sample is all {report['records']} records that there are: the interval knows nothing of how those "
            "differ that are not there"
        )
    if report["limit"] == "prepare":
        lines.append("reading and preparing, in one process, is slower than the workers, which wait for it")
    if (advice := report["advice"]) is not None:
        number = advice["workers"]
        lines.append(
            f"{number} workers on each device are {advice['times']:.2f} times as fast: queue.workers_per_device: "
            f"{number}, each device listed once"
        )
    return lines


def _list_tiles(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    seconds, rate = report["seconds"], report["rate"]
    return [
        (f"for {report['total']} records", MISSING if seconds is None else format_interval(seconds["value"])),
        ("records", MISSING if rate is None else f"{format_rate(rate['value'])}/s"),
        (f"records of the sample, {report['replicates']} times", str(report["sampled"])),
        ("workers, as the card says", MISSING if report["workers"] is None else str(report["workers"])),
    ]


def _select(report: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    return [one for one in report["groups"] if one["kind"] == kind]


def _format_scatter(one: Mapping[str, Any]) -> tuple[str, str]:
    return format_rate(one["mean"]), MISSING if one["sd"] is None else f"{one['sd']:.2g}"


def _format_rate(one: Mapping[str, Any]) -> str:
    limits = "" if one["low"] is None else f" [{format_rate(max(0.0, one['low']))}, {format_rate(one['high'])}]"
    return f"{format_rate(one['mean'])}{limits}"


def _render_kind(report: Mapping[str, Any], kind: str, words: str) -> str:
    groups = _select(report, kind)
    rows = [
        (one["words"], MISSING if one["mean"] is None else _format_rate(one),
         MISSING if one["sd"] is None else f"{one['sd']:.2g}",
         MISSING if one["useful_share"] is None else f"{one['useful_share']:.1%}") for one in groups
    ]  # fmt: skip
    body = render_table(HEADER, rows)
    body += "".join(render_paragraph(f"{one['words']}: {one['errors'][0]}", "soft") for one in groups if one["errors"])
    if any(one["mean"] is not None for one in groups):
        with apply_style():
            image = to_png(draw_rates(groups, _select(report, "alone"), words))
        body = render_image(image, f"Records per second by {words}") + body
    return body


def draw_rates(groups: Sequence[Mapping[str, Any]], alone: Sequence[Mapping[str, Any]], words: str) -> Figure:
    """Means with their standard deviations, each replicate, and what one process does without a queue."""
    known = [one for one in groups if one["mean"] is not None]
    figure, (axis,) = make_axes_grid(1, 1, width=7.0, height=2.8)
    places = np.arange(len(known))
    for place, one in zip(places, known, strict=True):
        axis.plot([place] * len(one["rates"]), one["rates"], ".", color=SECOND, alpha=0.6)
    means = [one["mean"] for one in known]
    axis.errorbar(places, means, yerr=[one["sd"] or 0.0 for one in known], fmt="o", color=MEAN, ms=4, capsize=3)
    for one in alone:
        if one["mean"] is not None:
            axis.axhline(one["mean"], color=FAILED, linewidth=0.8, label="one process without a queue")
            axis.legend(loc="best")
    axis.set_xticks(places, [escape_math(one["words"]) for one in known], rotation=20, ha="right")
    axis.set_xlim(-0.5, len(known) - 0.5)
    axis.set_ylim(bottom=0)
    axis.set_xlabel(words)
    axis.set_ylabel("records/s")
    return figure
