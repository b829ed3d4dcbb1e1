"""The page of an input study: verdict, stages, workers, what to write, what preparing ahead would give."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from tfperf.report.input import WORKER_HEADERS, describe_cure, list_worker_cells
from tfperf.report.input_ahead import StoreGain
from tfperf.report.input_device import draw_device
from tfperf.report.input_plots import draw_break_even, draw_busy, draw_waterfall, draw_workers
from tfperf.report.input_stages import HEADERS, StageRow, list_stage_cells, list_stage_rows
from tfperf.report.input_tuning import list_structure
from tfperf.report.input_verdict import format_period, name_bound
from tfperf.report.numbers import MISSING
from tfperf.report.page import escape_text, render_image, render_page, render_paragraph, render_table, render_tiles
from tfperf.report.sections import Section
from tfperf.report.style import apply_style, to_png

SIDES = {"model": "model alone, one batch again and again", "data": "data alone", "both": "both as they are"}


def render_input(report: Mapping[str, Any]) -> str:
    """The page, from the report of a study."""
    found, rows = report["as_it_is"], list_stage_rows(report["as_it_is"]["source"])
    verdict, notes = report["lines"][:3], report["lines"][3:]
    head = render_tiles(_list_tiles(report)) + "".join(map(render_paragraph, verdict))
    head += "".join(render_paragraph(line, "soft") for line in notes)
    sections = [("rates", "Model and data", _render_rates(found))]
    if rows:
        sections.append(("stages", "Stages", _render_stages(report, rows)))
    if report["workers"] is not None:
        sections.append(("workers", "Workers", _render_workers(report)))
    if report["cures"]:
        sections.append(("write", "What to write", "".join(_render_cure(one, report) for one in report["cures"])))
    if report["ahead"] is not None:
        sections.append(("ahead", "Preparing ahead", _render_ahead(StoreGain(**report["ahead"]), verdict[2])))
    if report.get("applied") is not None:
        sections.append(_make_applied_section(report))
    return render_page(report["title"] or "input", head, sections)


def _list_tiles(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    found, workers = report["as_it_is"], report["workers"]
    tiles = [("verdict", name_bound(report["bound"])), ("the device waits", f"{max(0.0, found['waits']['value']):.0%}")]
    if workers is not None:
        tiles += [("workers give 95 % of the best rate", str(workers["knee_with_step"])),
                  ("cores free", f"{workers['free_cores']:.2g} of {report['cores']}")]  # fmt: skip
    return tiles


def _render_rates(found: Mapping[str, Any]) -> str:
    rows = [
        (SIDES[side], format_period(found[side]["rate"]), f"{found[side]['rate']['value']:.4g}",
         f"{1e3 * found[side]['processor_seconds']:.3g}") for side in SIDES
    ]  # fmt: skip
    table = render_table(("", "a step or batch [95 % interval]", "per second", "CPU ms each"), rows)
    if not (found.get("device") or {}).get("devices"):
        return table
    caption = "Share of the time in which the device computes, both as they are, under TensorFlow's profiler."
    return table + _draw(draw_device, caption, found)


def _render_stages(report: Mapping[str, Any], rows: Sequence[StageRow]) -> str:
    image = ""
    if any(one.rate is not None for one in rows):
        caption = "How fast the data come up to each stage, with 95 % intervals; the step's rate as a line."
        image = _draw(draw_waterfall, caption, report, rows)
    structure = render_table((), list_structure(report["as_it_is"]["source"], rows), kind="text")
    return image + render_table(HEADERS, list_stage_cells(rows)) + structure


def _render_workers(report: Mapping[str, Any]) -> str:
    caption = "Rates of the data alone by numbers of workers: threads of tf.data's pool, or workers of other loaders."
    table = render_table(WORKER_HEADERS, list_worker_cells(report))
    legend = render_paragraph("batches/s; * the knee with the step, o cores minus one", "soft")
    return _draw(draw_workers, caption, report) + table + legend


def _render_cure(cure: Mapping[str, Any], report: Mapping[str, Any]) -> str:
    return render_paragraph(describe_cure(cure, report)) + f"<pre>{escape_text(cure['code'])}</pre>"


def _render_ahead(gain: StoreGain, line: str) -> str:
    caption = "Seconds since the beginning of all, by epochs: as it is, and with what is made once and stored."
    return render_paragraph(line) + _draw(draw_break_even, caption, gain)


def _make_applied_section(report: Mapping[str, Any]) -> Section:
    """What was applied, where a study has done so, and how much faster it is; how busy the device is, where told."""
    applied = report["applied"]
    rows = [
        (str(one["key"]), str(one.get("before")), str(one.get("after")), _format_ratio(one.get("ratio")))
        for one in applied.get("changed") or ()
    ]
    header = ("key", "before", "now", "times as fast")
    body = render_table(header, rows, kind="text") if rows else render_paragraph("Nothing was changed.")
    ratios = {"data alone": applied.get("ratio"), "beside a device that computes": applied.get("ratio_device")}
    told = [(name, _format_ratio(ratio)) for name, ratio in ratios.items() if ratio is not None]
    if told:
        body += render_table(("all of it", "times as fast"), told)
    if (busy := applied.get("busy")) is not None:
        body += _draw(
            draw_busy,
            "Share of the time in which a device is busy whose step takes as long, without a core.",
            busy["before"],
            busy["after"],
        )
    return "applied", "Applied", body


def _format_ratio(ratio: Mapping[str, Any] | None) -> str:
    if ratio is None:
        return MISSING
    limits = "" if ratio["low"] is None else f" [{ratio['low']:.2f}, {ratio['high']:.2f}]"
    return f"{ratio['value']:.2f}{limits}"


def _draw(draw: Any, caption: str, *arguments: Any) -> str:
    with apply_style():
        figure: Figure = draw(*arguments)
        return render_image(to_png(figure), caption)
