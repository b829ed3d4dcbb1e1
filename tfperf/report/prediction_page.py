"""The page of a prediction: rate over time, units, the end, workers, failures and faults, batches, lives."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from tfperf.report.numbers import MISSING, format_figure, format_percent, format_rate, format_seconds
from tfperf.report.page import render_image, render_page, render_paragraph, render_table, render_tiles
from tfperf.report.prediction_plots import draw_tail, draw_throughput, draw_units, sum_by_device
from tfperf.report.sections import Section, render_environment
from tfperf.report.style import apply_style, to_png

Report = Mapping[str, Any]
WORKER = ("worker", "records", "batches", "records/s while busy", "busy", "first unit at", "idle at the end")
SIZE_LIMITS = {"records": "records", "total_length": "of length, padding counted"}
USEFUL = (
    "Useful share: what was computed, of what all workers could have computed from the first unit to the last commit, "
    "each at its own rate while busy."
)
NOTHING = "No batch was done in this life, so there is nothing to draw."


def render_prediction(folder: Path, report: Report) -> str:
    """The page, from a report, which is that of the last life but for the failures. folder: with environment.json."""
    lives = [("lives", "Lives", _render_lives(report["lives"]))] if len(report["lives"]) > 1 else []
    sections: list[Section] = [
        ("rate", "Records a second", _render_rate(report)),
        ("time", "Where workers' time went", _render_time(report)),
        ("workers", "Workers", render_table(WORKER, map(_list_worker_cells, report["workers"]))),
        ("units", "Units", _render_units(report)),
        ("failures", "Failures", _render_failures(report)),
        ("faults", "Faults", _render_faults(report["faults"])),
        ("batches", "Batches", _render_batches(report)), *lives,
        render_environment(folder, report, {"machine": report["machine"]}),
    ]  # fmt: skip
    return render_page(report["title"] or "Prediction", _render_head(report), sections)


def _render_head(report: Report) -> str:
    done, total = report["committed"], report["records"]
    tiles = [
        ("records are in the file", f"{done}" if done == total else f"{done} of {total}"),
        ("records/s", format_rate(report["rate"])), ("useful share", format_percent(report["useful_share"])),
        ("records failed", str(report["failed"])), ("first unit to last commit", format_seconds(report["seconds"])),
        ("before the first unit", format_seconds(report["startup_seconds"])),
    ]  # fmt: skip
    head = render_tiles(tiles)
    if not report["is_finished"]:
        text = f"Not finished: {total - done} records are left. The same command with --resume goes on."
        head += render_paragraph(text, "warning")
    if done and report["failed"] == done:
        head += render_paragraph("Every record failed: the file has no row of the model.", "warning")
    if len(report["lives"]) > 1:
        own = report["records_of_this_life"]
        head += render_paragraph(
            f"Rates and times are those of the last of {len(report['lives'])} lives, {own} records."
        )
    return head + render_paragraph(USEFUL, "soft")


def _render_rate(report: Report) -> str:
    found = sum_by_device(report)
    if found is None:
        return render_paragraph(NOTHING)
    caption = (
        "Records a second over time, by device, one on top of the other. A batch counts for all of the time that it "
        "took, with the records of it that failed."
    )
    return _draw(draw_throughput, caption, found)


def _render_time(report: Report) -> str:
    """Shares of all workers' time, and the end by workers."""
    parts = split_time(report)
    if parts is None:
        return render_paragraph(NOTHING)
    body = render_table(("all workers", "share"), [(name, format_percent(share)) for name, share in parts.items()])
    if (tail := report["idle_tail"]) is None:
        return body + render_paragraph("The end is told of runs that are finished.")
    caption = "Seconds without work of each worker before the last commit."
    return body + render_paragraph(describe_tail(tail, report["seconds"])) + _draw(
        draw_tail, caption, report["workers"], tail
    )  # fmt: skip


def split_time(report: Report) -> dict[str, float] | None:
    """Shares of all workers' time from the first unit to the last commit; None where there was none.

    What adds nothing to the others is waiting between batches, sending, and processes that were replaced.
    """
    workers, seconds = report["workers"], report["seconds"]
    if not seconds or not any(one["busy_seconds"] for one in workers):
        return None
    whole = seconds * len(workers)
    start = sum(min(seconds, seconds if one["first_seconds"] is None else one["first_seconds"]) for one in workers)
    parts = {
        "computing batches": sum(one["busy_seconds"] for one in workers) / whole,
        "before its first unit": start / whole,
        "idle at the end": sum(one["idle_seconds"] or 0.0 for one in workers) / whole,
    }
    return parts | {"not attributed": max(0.0, 1 - sum(parts.values()))}


def describe_tail(tail: Mapping[str, float], seconds: float) -> str:
    """The end in words.

    >>> describe_tail({"seconds": 2.0, "commit_seconds": 0.5}, 100.0)
    'Before the last commit the first worker had no more work for 2.00 s, 2.0 % of the run; the last one for 0.50 s.'
    """
    first, last = (format_seconds(tail[key]) for key in ("seconds", "commit_seconds"))
    share = format_percent(tail["seconds"] / seconds if seconds else None)
    told = f"Before the last commit the first worker had no more work for {first}, {share} of the run"
    return f"{told}; the last one for {last}."


def _list_worker_cells(worker: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        worker["name"], str(worker["records"]), str(worker["batches"]), format_rate(worker["rate"]),
        format_seconds(worker["busy_seconds"]), format_seconds(worker["first_seconds"]),
        format_seconds(worker["idle_seconds"]),
    )  # fmt: skip


def _render_units(report: Report) -> str:
    units = report["units"]
    if not units["count"]:
        return render_paragraph("No unit was handed out in this life.")
    rows = [
        (
            name,
            *(MISSING if units[key] is None else format_figure(units[key][one]) for one in ("low", "median", "high")),
        )
        for key, name in (("seconds", "predicted s"), ("batches", "batches"))
    ]
    table = render_table((f"{units['count']} units", "a tenth is below", "median", "a tenth is above"), rows)
    caption = (
        "Units over time: how long each was to take by its worker's pace, and how many batches it had. "
        "The first one of a worker has one batch, which tells its pace. Sizes are right to 5 %."
    )
    return _draw(draw_units, caption, units, report["seconds"]) + table


def _render_failures(report: Report) -> str:
    """Of all lives."""
    if not report["failed"]:
        return render_paragraph("No record failed.")
    counts = render_table(("reason", "records"), [(name, str(count)) for name, count in report["reasons"].items()])
    first = [(str(one["record"]), one["reason"], one["message"]) for one in report["first"]]
    told = "All of them" if len(first) == report["failed"] else f"The first {len(first)}"
    table = render_table(("record", "reason", "message"), first, kind="text")
    return counts + render_paragraph(f"{told}, of all lives:") + table


def _render_faults(faults: Mapping[str, Any]) -> str:
    """What happened to workers and to the preparation."""
    if not faults["count"]:
        return render_paragraph("Nothing happened to workers, or to the preparation of records.")
    rows = [(format_seconds(one["at"]), one["text"]) for one in faults["first"]]
    body = render_table(("at", "what happened"), rows, kind="text")
    if faults["count"] > len(rows):
        body += render_paragraph(f"These are the first {len(rows)} of {faults['count']}.")
    return body


def describe_batch(batch: Mapping[str, Any]) -> str:
    """The rule by which records are put together, in words.

    >>> describe_batch({"records": 32, "total_length": None, "is_sorted": True})
    'at most 32 records, sorted by length'
    """
    limits = [f"at most {batch[key]} {name}" for key, name in SIZE_LIMITS.items() if batch.get(key) is not None]
    return ", ".join([*limits, "sorted by length" if batch.get("is_sorted") else "in their order"])


def _render_batches(report: Report) -> str:
    body = render_paragraph(f"Batches have {describe_batch(report['batch'])}.")
    if not report["batches_tried"]:
        return body + render_paragraph("The card says so; nothing was measured.", "soft")
    rows = [(describe_batch(one), format_rate(one["rate"])) for one in report["batches_tried"]]
    return body + render_table(("sizes that were tried", "records/s of one worker"), rows)


def _render_lives(lives: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        (str(number), str(one["records"]), format_seconds(one["seconds"]), format_rate(one["rate"]),
         format_percent(one["useful_share"]), format_seconds(one["startup_seconds"]))
        for number, one in enumerate(lives, 1)
    ]  # fmt: skip
    header = ("life", "records", "first unit to last commit", "records/s", "useful share", "before the first unit")
    note = "A life is from a start of the command to its end. "
    note += f"{MISSING}: of lives that were killed only the records are known, together."
    return render_table(header, rows) + render_paragraph(note, "soft")


def _draw(draw: Any, caption: str, *arguments: Any) -> str:
    with apply_style():
        figure: Figure = draw(*arguments)
        return render_image(to_png(figure), caption)
