"""report.html, the run as one page without network, and report.json, its figures."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfperf.report import numbers
from tfperf.report.numbers import format_count, format_number
from tfperf.report.page import render_image, render_page, render_paragraph, render_table, render_tiles
from tfperf.report.sections import Section, render_environment, render_time_table, write_json, write_text
from tfperf.workloads.pdf.report import pictures
from tfperf.workloads.pdf.report.chi2 import Chi2Row, describe_run, make_chi2_rows, make_chi2_totals
from tfperf.workloads.pdf.report.pool import DrawingPool
from tfperf.workloads.pdf.results.record import CONVERGED, FitResult

Images = Mapping[pictures.PictureKey, bytes]


def write_report(folder: Path, result: FitResult, pool: DrawingPool | None = None) -> None:
    """Write report.html and report.json to `folder`. Raises: StorageError."""
    write_html(folder, result, pool)
    write_json(folder, result.summary)


def write_html(folder: Path, result: FitResult, pool: DrawingPool | None = None) -> None:
    """Write report.html atomically; environment.json and card.yaml of the folder enter it. Raises: StorageError."""
    write_text(folder / "report.html", render_html(folder, result, pool))


def render_html(folder: Path, result: FitResult, pool: DrawingPool | None = None) -> str:
    """The page as text; the same result and folder give the same text. pool: who draws, by default this process."""
    images = (pool or DrawingPool(most=0)).draw(result)
    sections = [
        _render_chi2(result, images), _render_pdfs("evolution", "PDFs, evolution basis", result, images),
        _render_pdfs("flavour", "PDFs, flavour basis", result, images), _render_data(result, images),
        _render_training(images), _render_timing(result.summary), _render_replicas(result),
        render_environment(folder, result.summary, {"data pack": result.summary.get("pack")}),
    ]  # fmt: skip
    return render_page(result.title or "tfperf fit", _render_head(result), sections)


def _render_head(result: FitResult) -> str:
    summary = result.summary
    replicas = summary.get("replicas") or {}
    head = render_paragraph(describe_run(summary).replace("chi2", "χ²")) + render_tiles([
        ("χ² per point", format_number(summary.get("chi2_per_point"))),
        ("χ² per point without t0", format_number(summary.get("chi2_no_t0_per_point"))),
        ("points", format_count(summary.get("points"))),
        (
            "replicas converged" if result.survivors is None else "replicas chosen by postfit",
            f"{int(result.selected.sum())} of {format_count(replicas.get('total'))}",
        ),
        ("time", numbers.format_seconds((summary.get("seconds") or {}).get("total"))),
    ])  # fmt: skip
    failed = _list_failed(result)
    if failed:
        more = f" and {len(failed) - 20} more" if failed[20:] else ""
        names = ", ".join(f"{r} ({s})" for r, s in failed[:20]) + more
        one, many = "1 replica did not converge and enters", f"{len(failed)} replicas did not converge and enter"
        head += render_paragraph(f"{one if len(failed) == 1 else many} no mean or band: {names}.", "warning")
    return head


def _list_failed(result: FitResult) -> list[tuple[int, str]]:
    pairs = zip(result.replicas.id.tolist(), result.replicas.status, strict=True)
    return [(i, status) for i, status in pairs if status not in CONVERGED]


def _render_chi2(result: FitResult, images: Images) -> Section:
    header = ("dataset", "points", "χ² / N", "χ² / N without t0", "(χ² / N − 1) / √(2 / N)")
    rows, totals = (list(map(_format_cells, make(result.summary))) for make in (make_chi2_rows, make_chi2_totals))
    text = (
        "χ² per point of the mean PDF against the measured central values. Each set with its own block of the "
        "covariance of the fit (multiplicative errors scaled by t0 predictions), and of the experimental one (without "
        "t0)."
    )
    body = render_paragraph(text) + render_table(header, rows, totals) + _render_closure(result.summary)
    caption = f"χ² per point of the {result.selected_words}, covariance of the fit."
    return "chi2", "χ²", body + render_image(images[pictures.CHI2], caption)


def _format_cells(row: Chi2Row) -> tuple[str, ...]:
    chi2, chi2_no_t0 = format_number(row.chi2), format_number(row.chi2_no_t0)
    return row.name, format_count(row.points), chi2, chi2_no_t0, format_number(row.deviation, 1)


def _render_closure(summary: Mapping[str, Any]) -> str:
    closure = summary.get("closure")
    if not closure:
        return ""
    distance = format_number(closure.get("chi2_to_truth_per_point"), 4)
    level, law = closure.get("level"), closure.get("law")
    return render_paragraph(
        f"Closure test of level {level}, law {law}: χ² per point of the mean prediction to the truth {distance}."
    )


def _render_pdfs(basis: str, heading: str, result: FitResult, images: Images) -> Section:
    figures = [
        render_image(
            images[pictures.make_pdf_key(basis, scale)],
            f"x f(x, Q0) at Q0 = {result.q0:g} GeV in the {basis} basis, {scale} x axis: mean, 1 sigma and 68 % of the "
            f"{result.selected_words}, all replicas as thin lines.",
        )
        for scale in pictures.SCALES
    ]
    return basis, heading, "\n".join(figures)


def _render_data(result: FitResult, images: Images) -> Section:
    text = (
        "Measurements over predictions of the mean PDF. Bars: total experimental error of a point, correlated between "
        "points, so χ² cannot be read off them. Band: one sigma over the same replicas as the mean. Red "
        "triangles: points outside the frame."
    )
    figures = [
        render_image(images[pictures.make_data_key(experiment)], f"Data over theory: {experiment or 'all sets'}.")
        for experiment, _ in pictures.group_by_experiment(result.datasets)
    ]
    return "data", "Data and theory", render_paragraph(text) + "\n".join(figures)


def _render_training(images: Images) -> Section:
    caption = (
        "Losses at the end of each compiled call. Median and 68 % are over the replicas that enter the mean; one that "
        "has stopped keeps its last losses."
    )
    return "training", "Training", render_image(images[pictures.LOSSES], caption)


def _render_timing(summary: Mapping[str, Any]) -> Section:
    resumed = summary.get("resumed_from_steps") or []
    body = render_time_table(summary) + render_table((), [
        ("per step", numbers.format_speed(summary)),
        ("peak memory (resident)", numbers.format_bytes(summary.get("peak_rss_bytes"))),
        ("steps", format_count(summary.get("steps"))),
        ("resumed from step", ", ".join(map(str, resumed)) or "not resumed"),
        *numbers.list_leaves({"engine": summary.get("engine")}),
    ], kind="text")  # fmt: skip
    return "time", "Time, memory, engine", body


def _render_replicas(result: FitResult) -> Section:
    statuses = (result.summary.get("replicas") or {}).get("by_status") or {}
    body = render_table(("status", "replicas"), [(str(k), str(v)) for k, v in statuses.items()])
    failed = _list_failed(result)
    if failed:
        header = ("replica", "status", "steps", "attempt", "experimental χ² / N", "positivity penalty")
        table = render_table(header, _format_failed(result))
        body += render_paragraph("Replicas that did not converge:") + table
    return "replicas", "Replicas", body


def _format_failed(result: FitResult) -> list[tuple[str, ...]]:
    r = result.replicas
    return [
        (str(r.id[i]), r.status[i], str(r.stop_step[i]), str(r.attempt[i]), format_number(r.chi2_experimental[i]),
         f"{r.positivity[i]:.3g}")
        for i in range(len(r.id)) if not result.converged[i]
    ]  # fmt: skip
