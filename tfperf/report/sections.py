"""What the reports of all workloads have in common."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfperf.report import numbers
from tfperf.report.page import render_details, render_table
from tfperf.results.contents import REPORT
from tfperf.results.files import write_atomically
from tfperf.results.json_text import to_json
from tfperf.results.reading import read_text

Summary = Mapping[str, Any]
Section = tuple[str, str, str]  # anchor, heading, body in HTML


def write_json(folder: Path, summary: Summary) -> None:
    """Write report.json, the summary, atomically; null for what was not measured. Raises: StorageError."""
    write_text(folder / REPORT, to_json(summary, indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text atomically. Raises: StorageError."""
    content = text.encode()
    with write_atomically(path, len(content)) as temporary:
        temporary.write_bytes(content)


def render_time_table(summary: Summary) -> str:
    """Seconds of each stage and their shares."""
    rows = numbers.make_time_rows(summary)
    cells = [(r.stage, numbers.format_seconds(r.seconds), numbers.format_percent(r.share)) for r in rows]
    return render_table(("stage", "time", "share"), cells[:-1], cells[-1:])


def render_environment(folder: Path, summary: Summary, more: Mapping[str, Any] | None = None) -> Section:
    """Versions, and the run's environment.json and card.yaml where it has them; `more`: other figures by heading."""
    body = render_table(("", "version"), list(numbers.list_leaves(summary.get("versions"))), kind="text")
    for heading, figures in (more or {}).items():
        if figures:
            body += render_table((heading, ""), list(numbers.list_leaves(figures)), kind="text")
    for name in ("environment.json", "card.yaml"):
        if (folder / name).is_file():
            body += render_details(name, read_text(folder / name, errors="replace"))
    return "environment", "Environment and card", body
