"""What each switch of an ablation is worth, and the table of it. Reads and completes ablation.json's report."""

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tfperf.report import numbers

Report = Mapping[str, Any]
HEADERS = ("ms/step", "quartiles", "faster", "in all", "without", "memory", "losses")
LOSSES = {True: "agree", False: "DIFFER", None: numbers.MISSING}


def get_median_ms(entry: Report | None) -> float | None:
    """Milliseconds per step of an entry; None where it was not measured."""
    found = ((entry or {}).get("ms_per_step") or {}).get("median")
    return None if found is None else float(found)


def compute_ratio(a: float | None, b: float | None) -> float | None:
    """a / b, None where one is not known."""
    return None if a is None or b is None else a / b


def add_speedups(report: Report) -> dict[str, Any]:
    """The report with speed-ups: each variant beside the one before and beside the first, the last beside each without.

    `agree`: True when every variant's losses are known and agree.
    """
    series, times = report["series"], [get_median_ms(entry) for entry in report["series"]]
    out = []
    for i, entry in enumerate(series):
        out.append(dict(entry) | {
            "speedup": compute_ratio(times[i - 1], times[i]) if i else None,
            "speedup_cumulative": compute_ratio(times[0], times[i]) if i else None,
            "slowdown_without": compute_ratio(get_median_ms(entry["without"]), times[-1]),
        })  # fmt: skip
    return {**report, "series": out, "agree": all(_has_agreement(entry) for entry in _list_entries(out))}


def _list_entries(series: list[dict[str, Any]]) -> list[Report]:
    return [*series, *(entry["without"] for entry in series if entry["without"])]


def _has_agreement(entry: Report) -> bool:
    return bool((entry.get("agreement") or {}).get("agrees"))


def make_ablation_table(report: Report) -> RenderableType:
    """The report for the terminal; plain characters when piped."""
    title = ", ".join(filter(None, [report["title"] or "ablation", report["setting"]]))
    table = Table(title=Text(title), box=None, padding=(0, 2, 0, 0), pad_edge=False, title_justify="left")
    table.add_column("form", no_wrap=True)
    for header in HEADERS:
        table.add_column(header, justify="right", no_wrap=True)
    for i, entry in enumerate(report["series"]):
        table.add_row(*_format_cells(entry, first=i == 0))
    return Group(table, Text(), *(Text(line) for line in _describe_report(report)))


def _format_cells(entry: Report, first: bool) -> list[str | Text]:
    q1, q3 = (format_digits((entry["ms_per_step"] or {}).get(key)) for key in ("q1", "q3"))
    times = [format_digits(entry[name]) for name in ("speedup", "speedup_cumulative")]
    return [
        Text(entry["name"]), format_digits(get_median_ms(entry)), f"{q1}-{q3}", *(["", ""] if first else times),
        format_digits(entry["slowdown_without"]) if entry["without"] else "",
        _format_memory(entry["peak_rss_bytes"]), "" if first else LOSSES[compare_losses(entry)],
    ]  # fmt: skip


def _format_memory(size: float | None) -> str:
    return numbers.MISSING if size is None else f"{size / 1e6:.0f} MB"


def compare_losses(entry: Report) -> bool | None:
    """Whether the losses of an entry, and of the full card without it, are those of its reference; None: not known."""
    known = [e.get("agreement") for e in (entry, entry.get("without")) if e is not None]
    return all(a["agrees"] for a in known if a) if all(known) else None


def format_digits(value: float | None) -> str:
    """Three significant digits, no exponent; n/a for what was not measured.

    >>> format_digits(0.01234), format_digits(1.88), format_digits(329.4), format_digits(51745.0)
    ('0.0123', '1.88', '329', '51745')
    """
    return numbers.MISSING if value is None else f"{value:#.3g}".rstrip(".") if value < 999.5 else f"{value:.0f}"


def _describe_report(report: Report) -> list[str]:
    said = [f"{entry['name']}: {entry['says']}" for entry in report["series"]]
    unused = [f"left out: {name}: {reason}" for name, reason in report["left_out"].items()]
    entries = {e["form"]: e for e in _list_entries(report["series"])}
    failed = [f"not measured: {variant}: {e['error']}" for variant, e in entries.items() if e.get("error")]
    found = {variant: e["agreement"] for variant, e in entries.items() if e.get("agreement")}
    apart = [f"losses differ: {variant}: {_describe_deviation(a)}" for variant, a in found.items() if not a["agrees"]]
    return [*said, *unused, *failed, *(apart or _describe_worst([a for a in found.values() if a["worst"] is not None]))]


def _describe_deviation(agreement: Report) -> str:
    worst = "nan" if agreement["worst"] is None else f"{agreement['worst']:.1e}"
    return f"by {worst}, allowed are {agreement['allowed']:.0e}"


def _describe_worst(found: list[Report]) -> list[str]:
    """One line for each kind of agreement: to rounding, or within a tolerance."""
    kinds = sorted({a["allowed"] for a in found})
    most = [max((a for a in found if a["allowed"] == kind), key=lambda a: float(a["worst"])) for kind in kinds]
    return [f"losses after one step differ at most {_describe_deviation(a)}" for a in most]
