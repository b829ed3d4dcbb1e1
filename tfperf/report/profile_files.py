"""A profile's report as files: a page, JSON, CSV, TensorBoard events and Chrome's trace format."""

import csv
import gzip
import json
import math
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event  # type: ignore[import-untyped]
from tensorboard.compat.proto.summary_pb2 import Summary  # type: ignore[import-untyped]
from tensorboard.plugins.scalar.summary_v2 import scalar_pb  # type: ignore[import-untyped]
from tensorboard.plugins.text.summary_v2 import text_pb  # type: ignore[import-untyped]
from tensorboard.summary.writer.record_writer import RecordWriter  # type: ignore[import-untyped]

from tfperf.errors import UserError
from tfperf.report.ablation import format_digits
from tfperf.report.chrome_trace import to_chrome_trace
from tfperf.report.page import escape_text
from tfperf.report.profile import OPERATION_COLUMNS, describe_profile
from tfperf.report.profile_page import render_profile_page
from tfperf.report.tensorboard import FILE
from tfperf.results.files import write_atomically
from tfperf.results.json_text import to_json
from tfperf.results.rundir import has_run
from tfperf.trace.attribution import Attribution
from tfperf.trace.phases import PHASES

CARD_SUFFIXES = (".yaml", ".yml")
IN_JSON = 200  # operations in report.json; operations.csv has them all
Record = Mapping[str, Any]


def write_profile(folder: Path, attribution: Attribution, record: Record, title: str) -> list[Path]:
    """Write report.html, report.json, phases.csv, operations.csv, trace.json.gz and TensorBoard events to a folder.

    Raises: StorageError.
    """
    prepare_folder(folder)
    files: dict[str, bytes] = {
        "report.html": render_profile_page(attribution, record, title).encode(errors="replace"),
        "report.json": (to_json(_shorten(record), indent=1) + "\n").encode(),
        "phases.csv": format_csv(("step", "call", "device", "phase", "ms"), _list_phase_rows(attribution)).encode(),
        "operations.csv": format_csv(OPERATION_COLUMNS, map(dict.values, record["operations"])).encode(),
        "trace.json.gz": gzip.compress(
            json.dumps(to_chrome_trace(attribution.timeline, attribution.account.moments)).encode(),
            compresslevel=6,  # 9 takes four times as long and saves 7 %
            mtime=0,
        ),
        FILE: b"".join(_encode_events(attribution, record)),
    }
    for name, content in files.items():
        with write_atomically(folder / name, len(content)) as temporary:
            temporary.write_bytes(content)
    return [folder / name for name in files]


def _shorten(record: Record) -> dict[str, Any]:
    """What report.json has: not all operations, nor what each capture is made of."""
    return {**record, "operations": record["operations"][:IN_JSON], "series": [one["step"] for one in record["series"]]}


def find_report_folder(path: Path, output: Path | None, logdir: Path | None) -> tuple[Path, Path | None]:
    """Where the profile that a path names is, or will be, and where its report goes; None: nowhere.

    A card's goes to `output`, or to CARD_profile in the current folder, a run's to its own profile/.
    """
    if path.suffix in CARD_SUFFIXES:
        source = logdir or output or Path(f"{path.stem}_profile")
        return source, output or source
    return path, output or (path / "profile" if has_run(path) else None)


def prepare_folder(folder: Path) -> None:
    """Make a folder to write to, with those above it. Raises: UserError, also where a run or a sweep is in it."""
    if has_run(folder) or os.path.lexists(folder / "sweep.json"):
        raise UserError(f"{folder}: holds a run or a sweep, whose report would be replaced; choose another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: cannot be made a folder: {error.strerror}") from None
    if not os.access(folder, os.W_OK):
        raise UserError(f"{folder}: nothing can be written there")


def format_csv(header: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """A table as CSV that spreadsheets do not carry out: text that they would take for a formula has a `'` before it.

    All text is in quotes, figures are not; text that is a figure, such as -1.5, stays as it is.
    """
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(header)
    writer.writerows(map(_escape_formulas, rows))
    return text.getvalue()


def _escape_formulas(row: Iterable[Any]) -> list[Any]:
    return [f"'{cell}" if isinstance(cell, str) and _is_formula(cell) else cell for cell in row]


def _is_formula(text: str) -> bool:
    """Whether a spreadsheet would compute it; some skip what is blank before, and know wide forms of the signs."""
    if not text.lstrip().startswith(tuple("=+-@＝＋－＠")) and not text.startswith(("\t", "\r", "\n")):
        return False
    try:
        return not math.isfinite(float(text))
    except ValueError:
        return True


def _list_phase_rows(attribution: Attribution) -> Iterator[tuple[Any, ...]]:
    for device, busy in attribution.busy.items():
        for step, (call, row) in enumerate(zip(attribution.call.tolist(), busy.tolist(), strict=True)):
            yield from ((step, call, device, phase, ms) for phase, ms in zip(PHASES, row, strict=True) if ms)


def _encode_events(attribution: Attribution, record: Record) -> Iterator[bytes]:
    """TensorBoard's records: step_ms, gap_ms and phase_ms/* by step, and the tables as text."""
    stream, now = BytesIO(), time.time()
    writer = RecordWriter(stream)
    writer.write(Event(wall_time=now, file_version="brain.Event:2").SerializeToString())

    def add(step: int, summary: Summary) -> None:
        writer.write(Event(wall_time=now, step=step, summary=summary).SerializeToString())

    several = len(attribution.busy) > 1
    for step, ms in enumerate(attribution.steps.tolist()):
        add(step, scalar_pb("step_ms", ms))
        for device, busy in attribution.busy.items():
            for phase, column in zip(PHASES, busy.T, strict=True):
                if column.any():
                    name = f"phase_ms/{phase}/{device}" if several else f"phase_ms/{phase}"
                    add(step, scalar_pb(name, float(column[step])))
    for call, gap in enumerate(attribution.gaps.tolist()):
        add(call, scalar_pb("gap_ms", gap))
    add(0, text_pb("profile", _render_markdown(record)))
    yield stream.getvalue()


def _render_markdown(record: Record) -> str:
    devices = record["devices"]
    rows = [f"| phase | {' | '.join(map(_escape_markdown, devices))} |", f"|---|{'---|' * len(devices)}"]
    for phase in PHASES:
        cells = [d["phases"][phase] for d in devices.values()]
        if any(cells):
            rows.append(f"| {phase} | {' | '.join(f'{format_digits(ms)} ms' for ms in cells)} |")
    return "\n".join([*(f"{_escape_markdown(line)}  " for line in describe_profile(record)), "", *rows])


def _escape_markdown(text: str) -> str:
    """A text that Markdown shows as it is: TensorBoard would fetch an image that a name embeds."""
    return re.sub(r"([\\`*_\[\]!|#])", r"\\\1", escape_text(" ".join(text.splitlines())))
