"""A sweep over placements as files: a page without network, its rows as JSON, TensorBoard's HParams."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event  # type: ignore[import-untyped]
from tensorboard.plugins.hparams import summary_v2 as hparams  # type: ignore[import-untyped]
from tensorboard.plugins.scalar.summary_v2 import scalar_pb  # type: ignore[import-untyped]
from tensorboard.summary.writer.record_writer import RecordWriter  # type: ignore[import-untyped]

from tfperf.report import placements, questions, wording
from tfperf.report.ablation import format_digits
from tfperf.report.course import explain
from tfperf.report.numbers import MISSING
from tfperf.report.page import render_image, render_page, render_paragraph, render_table
from tfperf.report.plots_placements import draw_placements
from tfperf.report.recommendation import recommend
from tfperf.report.style import apply_style, to_png
from tfperf.report.tensorboard import FILE
from tfperf.report.time_tables import format_chain_cells, format_course_cells, format_device_cells, format_pass_cells
from tfperf.results.contents import EVENTS, PAGE
from tfperf.results.files import make_folder, write_atomically
from tfperf.results.placements import ROWS, Answers, PlacementRow

PICTURE = (
    "Left: words per second over the number of devices, with their intervals; points of one line did like work, those "
    "without a line are alone in theirs. Right: what the end of a traced step waits for, by placement and number of "
    "devices; a mark where the timed step ends."
)
TIME = (
    "Milliseconds of a step and shares of it, from a trace of the timed steps in one repeat, by the clock: what ended "
    "last before each operation that the end of a step waited for, back to its begin. Core taken: what it needed was "
    "there, but the thread (on GPUs the stream) where it began ran others; runtime: it ran nothing. A step's bound is "
    "the largest of its three terms and the update."
)
DEVICES = (
    "Busy: time in which some operation of a phase runs on the device; at once: what counts twice, since phases ran at "
    "the same time; waiting: nothing runs there. They add up to the step. An operation's time holds that in which its "
    "thread had no core."
)
CHAIN = (
    "Of all chains of operations that wait for each other in the graphs that ran, over devices and through the turns "
    "of loops, the one whose operations took longest in the trace; time between them does not count."
)
COPIES = ("MB sent in a step, of those needed at most", "most of them, MB")


def write_placements(
    folder: Path, title: str, rows: Sequence[PlacementRow], drift: str, answers: Answers = placements.NO_ANSWERS
) -> Path:  # fmt: skip
    """Write the report of a sweep into its folder; returns the page's path. drift: in words. Raises: StorageError."""
    with write_atomically(folder / ROWS) as temporary:
        temporary.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")
    _write_hparams(folder / EVENTS, rows)
    with write_atomically(folder / PAGE) as temporary:
        temporary.write_text(render_placements_page(title, rows, drift, answers), encoding="utf-8")
    return folder / PAGE


def render_placements_page(
    title: str, rows: Sequence[PlacementRow], drift: str, answers: Answers = placements.NO_ANSWERS
) -> str:  # fmt: skip
    """The page as text; everything is inside it."""
    with apply_style():
        picture = to_png(draw_placements(rows))
    speeds = "".join(
        render_paragraph(f"{name}.") + render_table(placements.SPEED, placements.format_speed_cells(some))
        for name, some in placements.group_rows(rows)
    )
    notes = "".join(map(render_paragraph, [*placements.describe_rows(rows), drift]))
    about = render_paragraph(placements.MEANING, "soft")
    sections = [
        ("speed", "Speed", speeds + about + notes),
        ("picture", "Speed and parts of a step", render_image(picture, PICTURE)),
        ("questions", "Three questions", _render_questions(rows, answers)),
        ("time", "Where the time goes", _render_time(rows) + render_table(*format_course_cells(rows))),
        ("devices", "On each device", render_paragraph(DEVICES, "soft") + render_table(*format_device_cells(rows))),
        ("passes", "Passes", render_table(*format_pass_cells(rows))),
        ("chain", "The longest chain", render_paragraph(CHAIN, "soft") + render_table(*format_chain_cells(rows))),
        ("memory", "Memory", render_table(*placements.format_memory_cells(rows), kind="text")),
        ("places", "Where everything ran", render_table(*_format_places(rows), kind="text")),
    ]  # fmt: skip
    return render_page(title or "Placements", "".join(map(render_paragraph, recommend(rows))), sections)


def _render_questions(rows: Sequence[PlacementRow], answers: Answers) -> str:
    """Each question with its answer, and the figures behind them."""
    said = "".join(render_paragraph(f"{q} {' '.join(a)}") for q, a in questions.answer_questions(rows, answers))
    growth = render_table(*questions.format_growth_cells(answers.growth)) + render_paragraph(questions.GROWTH, "soft")
    return said + growth + render_table(*questions.format_last_cells(rows)) + render_paragraph(questions.LAST, "soft")


def _render_time(rows: Sequence[PlacementRow]) -> str:
    """What the traces say, row by row."""
    said = [f"{wording.format_placement(row)} on {row.devices}: {' '.join(lines)}"
            for row in rows if (lines := explain(row))]  # fmt: skip
    return "".join(map(render_paragraph, said)) + render_paragraph(TIME, "soft")


def _format_places(rows: Sequence[PlacementRow]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    kinds = list(dict.fromkeys(kind for row in rows for kind in row.places))
    lines = []
    for row in (row for row in rows if row.places):
        cells = [placements.format_figures(row.places.get(kind, {}), ":") for kind in kinds]
        lines.append((*wording.format_row_head(row), *cells, *_format_copies(row)))
    return ("placement", "devices", *kinds, *COPIES), lines


def _format_copies(row: PlacementRow) -> tuple[str, str]:
    """Megabytes that devices send each other in the step that was proved: all, and where they are most."""
    if not row.copies:
        return MISSING, MISSING
    sent, needed = (sum(pair) for pair in zip(*row.copies.values(), strict=True))
    busiest, (most, _) = max(row.copies.items(), key=lambda item: item[1][0])
    return f"{format_digits(sent / 1e6)} of {format_digits(needed / 1e6)}", f"{busiest}: {format_digits(most / 1e6)}"


def _write_hparams(folder: Path, rows: Sequence[PlacementRow]) -> None:
    """A run for each point: its swept values, milliseconds a step and words per second."""
    now = time.time()
    for number, row in enumerate(rows):
        run = folder / f"point_{number:04d}"
        make_folder(run)
        values = {key: value if value is not None else "null" for key, value in row.values.items()}
        summaries = [hparams.hparams_pb(values, trial_id=run.name)]
        figures = {"words_per_second": row.words_per_second, "ms_per_step": row.ms_per_step, "speedup": row.speedup}
        summaries += [scalar_pb(name, figure.value) for name, figure in figures.items() if figure is not None]
        with write_atomically(run / FILE) as temporary, temporary.open("wb") as stream:
            writer = RecordWriter(stream)
            writer.write(Event(wall_time=now, file_version="brain.Event:2").SerializeToString())
            for summary in summaries:
                writer.write(Event(wall_time=now, step=0, summary=summary).SerializeToString())
            writer.flush()
