"""report.html, the run as one page without network, and report.json, its figures."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfperf.report import numbers
from tfperf.report.numbers import count, number
from tfperf.report.page import image, page, paragraph, table, tiles
from tfperf.report.sections import Section, environment, time_table, write_json, write_text
from tfperf.workloads.pdf.report.chi2 import chi2_rows, chi2_totals, headline
from tfperf.workloads.pdf.report.pictures import CHI2, LOSSES, SCALES, Picture, by_experiment, data, pdfs
from tfperf.workloads.pdf.report.team import Team
from tfperf.workloads.pdf.results.record import CONVERGED, FitResult

Drawn = Mapping[Picture, bytes]


def write_report(folder: Path, result: FitResult, team: Team | None = None) -> None:
    """Write report.html and report.json to `folder`. Raises: StorageError."""
    write_html(folder, result, team)
    write_json(folder, result.summary)


def write_html(folder: Path, result: FitResult, team: Team | None = None) -> None:
    """Write report.html atomically; environment.json and card.yaml of the folder enter it. Raises: StorageError."""
    write_text(folder / "report.html", html(folder, result, team))


def html(folder: Path, result: FitResult, team: Team | None = None) -> str:
    """The page as text; the same result and folder give the same text. team: who draws, by default this process."""
    drawn = (team or Team(most=0)).draw(result)
    sections = [
        _chi2(result, drawn), _pdfs("evolution", "PDFs, evolution basis", result, drawn),
        _pdfs("flavour", "PDFs, flavour basis", result, drawn), _data(result, drawn), _training(drawn),
        _timing(result.summary), _replicas(result),
        environment(folder, result.summary, {"data pack": result.summary.get("pack")}),
    ]  # fmt: skip
    return page(result.title or "tfperf fit", _head(result), sections)


def _head(result: FitResult) -> str:
    summary = result.summary
    replicas = summary.get("replicas") or {}
    head = paragraph(headline(summary).replace("chi2", "χ²")) + tiles([
        ("χ² per point", number(summary.get("chi2_per_point"))),
        ("χ² per point without t0", number(summary.get("chi2_no_t0_per_point"))),
        ("points", count(summary.get("points"))),
        ("replicas converged", f"{count(replicas.get('converged'))} of {count(replicas.get('total'))}"),
        ("time", numbers.seconds((summary.get("seconds") or {}).get("total"))),
    ])  # fmt: skip
    failed = _failed(result)
    if failed:
        names = ", ".join(f"{r} ({s})" for r, s in failed[:20]) + (
            f" and {len(failed) - 20} more" if failed[20:] else ""
        )
        one, many = "1 replica did not converge and enters", f"{len(failed)} replicas did not converge and enter"
        head += paragraph(f"{one if len(failed) == 1 else many} no mean or band: {names}.", "warning")
    return head


def _failed(result: FitResult) -> list[tuple[int, str]]:
    pairs = zip(result.replicas.id.tolist(), result.replicas.status, strict=True)
    return [(i, status) for i, status in pairs if status not in CONVERGED]


def _chi2(result: FitResult, drawn: Drawn) -> Section:
    header = ("dataset", "points", "χ² / N", "χ² / N without t0", "(χ² / N − 1) / √(2 / N)")
    rows, totals = (
        [(r.name, count(r.points), number(r.chi2), number(r.chi2_no_t0), number(r.deviation, 1)) for r in source]
        for source in (chi2_rows(result.summary), chi2_totals(result.summary))
    )
    text = (
        "χ² per point of the mean PDF against the measured central values. Each set with its own block of the "
        "covariance of the fit (multiplicative errors scaled by t0 predictions), and of the experimental one (without "
        "t0)."
    )
    body = paragraph(text) + table(header, rows, totals) + _closure(result.summary)
    caption = f"χ² per point of the {result.converged.sum()} converged replicas, covariance of the fit."
    return "chi2", "χ²", body + image(drawn[CHI2], caption)


def _closure(summary: Mapping[str, Any]) -> str:
    closure = summary.get("closure")
    if not closure:
        return ""
    distance = number(closure.get("chi2_to_truth_per_point"), 4)
    level, law = closure.get("level"), closure.get("law")
    return paragraph(
        f"Closure test of level {level}, law {law}: χ² per point of the mean prediction to the truth {distance}."
    )


def _pdfs(basis: str, heading: str, result: FitResult, drawn: Drawn) -> Section:
    figures = [
        image(
            drawn[pdfs(basis, scale)],
            f"x f(x, Q0) at Q0 = {result.q0:g} GeV in the {basis} basis, {scale} x axis: mean, 1 sigma and 68 % of the "
            f"{result.converged.sum()} converged replicas, all replicas as thin lines.",
        )
        for scale in SCALES
    ]
    return basis, heading, "\n".join(figures)


def _data(result: FitResult, drawn: Drawn) -> Section:
    text = (
        "Measurements over predictions of the mean PDF. Bars: total experimental error of a point, correlated between "
        "points, so χ² cannot be read off them. Band: one sigma over the converged replicas. Red triangles: points "
        "outside the frame."
    )
    figures = [
        image(drawn[data(experiment)], f"Data over theory: {experiment or 'all sets'}.")
        for experiment, _ in by_experiment(result.datasets)
    ]
    return "data", "Data and theory", paragraph(text) + "\n".join(figures)


def _training(drawn: Drawn) -> Section:
    caption = (
        "Losses at the end of each compiled call. Median and 68 % are over the converged replicas that still run there."
    )
    return "training", "Training", image(drawn[LOSSES], caption)


def _timing(summary: Mapping[str, Any]) -> Section:
    resumed = summary.get("resumed_from_steps") or []
    body = time_table(summary) + table((), [
        ("per step", numbers.speed(summary)),
        ("peak memory (resident)", numbers.size(summary.get("peak_rss_bytes"))),
        ("steps", count(summary.get("steps"))),
        ("resumed from step", ", ".join(map(str, resumed)) or "not resumed"),
        *numbers.flat({"engine": summary.get("engine")}),
    ], kind="text")  # fmt: skip
    return "time", "Time, memory, engine", body


def _replicas(result: FitResult) -> Section:
    statuses = (result.summary.get("replicas") or {}).get("by_status") or {}
    body = table(("status", "replicas"), [(str(k), str(v)) for k, v in statuses.items()])
    failed = _failed(result)
    if failed:
        body += paragraph("Replicas that did not converge:") + table(
            ("replica", "status", "steps", "attempt", "experimental χ² / N", "positivity penalty"), _failed_rows(result)
        )
    return "replicas", "Replicas", body


def _failed_rows(result: FitResult) -> list[tuple[str, ...]]:
    r = result.replicas
    return [
        (
            str(r.id[i]), r.status[i], str(r.stop_step[i]), str(r.attempt[i]),
            number(r.chi2_experimental[i]), f"{r.positivity[i]:.3g}",
        )
        for i in range(len(r.id)) if not result.converged[i]
    ]  # fmt: skip
