"""A sweep over placements in tables and words, for terminal and page."""

from collections.abc import Iterable, Mapping, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tfperf.report.ablation import format_digits
from tfperf.report.numbers import MISSING
from tfperf.report.questions import answer_questions
from tfperf.report.recommendation import recommend
from tfperf.report.wording import (
    format_count,
    format_estimate,
    format_like_work_title,
    format_placement,
    format_row_head,
    has_own_batches,
    is_below_bound,
)
from tfperf.results.placements import Answers, PlacementRow
from tfperf.runcard.sweep import MOST_REPEATS

Cells = list[tuple[str, ...]]
NO_ANSWERS = Answers()
SPEED = (
    "placement", "devices", "batch a device", "columns", "padding", "words a step", "ms a step", "words/s", "speed-up",
    "efficiency", "against best single", "bound ms", "of bound",
)  # fmt: skip
MEANING = (
    "Speed-up: examples per second over those of one device with the same placement, at like work; efficiency: "
    "that over the devices; against best single: over the one device with the highest mean. [ ]: 95 % interval of "
    "the geometric mean over repeats, of ratios over repeats side by side. Words: what batches hold beside padding. "
    "Columns: of batches with their padding, mean over the steps."
)


def make_placements_table(rows: Sequence[PlacementRow], drift: str, answers: Answers = NO_ANSWERS) -> RenderableType:
    """The study's table for the terminal; plain characters when piped. drift: in words."""
    return Group(
        *(_make_table(title, SPEED, format_speed_cells(some)) for title, some in group_rows(rows)), Text(MEANING),
        *(Text(line) for line in [*describe_rows(rows), drift]),
        *(Text(" ".join([question, *said])) for question, said in answer_questions(rows, answers)),
        *(Text(line) for line in recommend(rows)),
    )  # fmt: skip


def _make_table(title: str, header: Sequence[str], rows: Cells) -> Table:
    table = Table(title=Text(title), box=box.ASCII_DOUBLE_HEAD, title_justify="left")
    for i, name in enumerate(header):
        table.add_column(name, justify="right" if i else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def group_rows(rows: Sequence[PlacementRow]) -> list[tuple[str, list[PlacementRow]]]:
    """Rows of like work, each group with its title; those without proof are in none."""
    found: dict[str, list[PlacementRow]] = {}
    for row in rows:
        if row.proved and row.group:
            found.setdefault(row.group, []).append(row)
    return [(format_like_work_title(some), some) for some in found.values()]


def format_speed_cells(rows: Iterable[PlacementRow]) -> Cells:
    """A line for each row under SPEED."""
    return [(
        row.placement, format_count(row.devices), format_count(row.batch), format_digits(row.columns),
        format_share(row.padding_share), format_digits(row.words), format_estimate(row.ms_per_step),
        format_estimate(row.words_per_second), *_format_speedup(row), format_estimate(row.against_best),
        format_digits(row.bound.get("bound_ms")), format_bound_share(row),
    ) for row in rows]  # fmt: skip


def _format_speedup(row: PlacementRow) -> tuple[str, str]:
    """With its efficiency; both are 1 for the one device that others are set beside."""
    return ("1", "1") if row.devices == 1 else (format_estimate(row.speedup), format_estimate(row.efficiency))


def format_share(value: float | None) -> str:
    """In per cent."""
    return MISSING if value is None else f"{value:.1%}"


def format_bound_share(row: PlacementRow) -> str:
    """The bound over the measured time of a step."""
    if not row.bound or row.ms_per_step is None:
        return MISSING
    return f"{row.bound['bound_ms'] / row.ms_per_step.value:.0%}"


def format_figures(figures: Mapping[str, object], mark: str = "") -> str:
    """Figures behind their names and the mark, which no line break parts."""
    return ", ".join(f"{name}{mark}\N{NO-BREAK SPACE}{figure}" for name, figure in sorted(figures.items()))


def format_memory_cells(rows: Iterable[PlacementRow]) -> tuple[tuple[str, ...], Cells]:
    """Header and lines: MB of variables and slots by device, and at most where the device tells."""
    header = ("placement", "devices", "MB kept: variables and slots", "MB at most: device", "MB at most: process")
    lines: Cells = []
    for row in (row for row in rows if row.memory):
        variables, peak = (
            format_figures({name: format_digits(size / 1e6) for name, size in row.memory[key].items()}) or MISSING
            for key in ("kept_bytes", "peak_bytes")
        )
        lines.append((*format_row_head(row), variables, peak, format_digits(row.memory["peak_rss_bytes"] / 1e6)))
    return header, lines


def describe_rows(rows: Sequence[PlacementRow]) -> list[str]:
    """What a reader of the table has to know."""
    kinds = {tuple(sorted((k, str(v)) for k, v in row.kernels.items())) for row in rows if row.kernels}
    out = [f"computed alike in all rows, seen in their graphs: {', '.join(f'{k} {v}' for k, v in kind)}"
           for kind in kinds if len(kinds) == 1]  # fmt: skip
    if len(kinds) > 1:
        texts = "; ".join(", ".join(f"{k} {v}" for k, v in kind) for kind in sorted(kinds))
        out.append(f"warning: the rows were not computed alike: {texts}")
    out += [f"merge: {text}" for text in dict.fromkeys(row.merge for row in rows if row.merge)]
    out += _describe_waste(rows)
    if has_own_batches(rows):
        out.append(
            "Batches were drawn for each number of devices: rows of different numbers did other work, so none is set "
            "beside another; data.scaling: strong or weak makes them comparable"
        )
    out += [*_describe_needed_repeats(rows), *_describe_fewer_repeats(rows), *_describe_wrong_bounds(rows)]
    if diverged := ", ".join(_name_row(row) for row in rows if row.diverged):
        out.append(f"warning: losses that are no numbers, so weighed against no other: {diverged}")
    left_out = ", ".join(f"{_name_row(row)}: {row.left_out}" for row in rows if row.left_out)
    if left_out:
        out.append(f"samples that are left out, since something was traced in them: {left_out}")
    hidden = ", ".join(_name_row(row) for row in rows if row.kernels.get("xla") and not row.phases)
    if hidden:
        out.append(
            f"the profiler does not show on which device XLA's programs run, so not where the time goes: {hidden}"
        )
    out += [f"failed: {_format_values(row.values)}: {error}" for row in rows for error in row.errors]
    out += [f"no proof, so in no table of speeds: {_format_values(row.values)}" for row in rows if not row.proved]
    return out


def _describe_waste(rows: Sequence[PlacementRow]) -> list[str]:
    """Devices that wait for longer examples of others, by the rows that have such."""
    shares: dict[str, list[str]] = {}
    for row in rows:
        if row.straggler_waste:
            text = f"waiting for longer examples of other devices {row.straggler_waste:.1%} (counted in batches)"
            shares.setdefault(text, []).append(_name_row(row))
    return [f"{text}: {', '.join(names)}" for text, names in shares.items()]


def _describe_fewer_repeats(rows: Sequence[PlacementRow]) -> list[str]:
    """Rows that stand on fewer repeats than others do."""
    proved = [row for row in rows if row.proved and row.group]
    most = max((row.repeats for row in proved), default=0)
    names = ", ".join(f"{_name_row(row)}: {row.repeats}" for row in proved if row.repeats < most)
    return [f"figures of fewer than {most} repeats, since some failed or are missing: {names}"] if names else []


def _describe_wrong_bounds(rows: Sequence[PlacementRow]) -> list[str]:
    """Rows that were faster than they can be."""
    names = ", ".join(_name_row(row) for row in rows if is_below_bound(row))
    if not names:
        return []
    text = "warning: steps shorter than their bound, whose ceilings were measured too low: it bounds nothing"
    return [f"{text}: {names}"]


def _describe_needed_repeats(rows: Sequence[PlacementRow]) -> list[str]:
    """The repeats that speed-ups need whose intervals are wider than 10 %."""
    single = [row for row in rows if row.devices != 1 and row.speedup is not None and row.speedup.low is None]
    wide = {_name_row(row): row.repeats_needed for row in rows if row.repeats_needed is not None}
    out = []
    if single:
        names = ", ".join(map(_name_row, single))
        text = "one repeat side by side tells no interval of these speed-ups, nor how many would be needed"
        out.append(f"{text}: {names}")
    if wide:
        names = ", ".join(f"{name}: {_format_repeats(count)}" for name, count in wide.items())
        out.append(
            "speed-ups whose 95 % interval is wider than 10 %, with the repeats that would make it 10 % wide if they "
            f"scatter on like this, with even odds: {names}"
        )
    return out


def _name_row(row: PlacementRow) -> str:
    return f"{format_placement(row)} on {row.devices}"


def _format_repeats(count: int) -> str:
    return str(count) if count <= MOST_REPEATS else f"more than {MOST_REPEATS}, which no sweep has"


def _format_values(values: object) -> str:
    return ", ".join(f"{key} {value}" for key, value in dict(values).items())  # type: ignore[call-overload]
