"""A sweep over placements in tables and words, for terminal and page."""

from collections.abc import Iterable, Mapping, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tfperf.report.ablation import digits
from tfperf.report.numbers import MISSING
from tfperf.report.questions import answer
from tfperf.report.recommendation import recommend
from tfperf.report.wording import as_drawn, called, group_title, no_bound, whole, within
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


def placements_table(rows: Sequence[PlacementRow], drift: str, answers: Answers = NO_ANSWERS) -> RenderableType:
    """The study's table for the terminal; plain characters when piped. drift: in words."""
    return Group(
        *(_table(title, SPEED, speed_cells(some)) for title, some in groups(rows)), Text(MEANING),
        *(Text(line) for line in [*remarks(rows), drift]),
        *(Text(" ".join([question, *said])) for question, said in answer(rows, answers)),
        *(Text(line) for line in recommend(rows)),
    )  # fmt: skip


def _table(title: str, header: Sequence[str], rows: Cells) -> Table:
    table = Table(title=Text(title), box=box.ASCII_DOUBLE_HEAD, title_justify="left")
    for i, name in enumerate(header):
        table.add_column(name, justify="right" if i else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def groups(rows: Sequence[PlacementRow]) -> list[tuple[str, list[PlacementRow]]]:
    """Rows of like work, each group with its title; those without proof are in none."""
    found: dict[str, list[PlacementRow]] = {}
    for row in rows:
        if row.proved and row.group:
            found.setdefault(row.group, []).append(row)
    return [(group_title(some), some) for some in found.values()]


def speed_cells(rows: Iterable[PlacementRow]) -> Cells:
    """A line for each row under SPEED."""
    return [
        (
            row.placement, whole(row.devices), whole(row.batch), digits(row.columns), share(row.padding_share),
            digits(row.words), within(row.ms_per_step), within(row.words_per_second), *_speedup(row),
            within(row.against_best), digits(row.bound.get("bound_ms")), bound_share(row),
        )
        for row in rows
    ]  # fmt: skip


def _speedup(row: PlacementRow) -> tuple[str, str]:
    """With its efficiency; both are 1 for the one device that others are set beside."""
    return ("1", "1") if row.devices == 1 else (within(row.speedup), within(row.efficiency))


def share(value: float | None) -> str:
    """In per cent."""
    return MISSING if value is None else f"{value:.1%}"


def bound_share(row: PlacementRow) -> str:
    """The bound over the measured time of a step."""
    if not row.bound or row.ms_per_step is None:
        return MISSING
    return f"{row.bound['bound_ms'] / row.ms_per_step.value:.0%}"


def listed(figures: Mapping[str, object], mark: str = "") -> str:
    """Figures behind their names and the mark, which no line break parts."""
    return ", ".join(f"{name}{mark}\N{NO-BREAK SPACE}{figure}" for name, figure in sorted(figures.items()))


def memory_cells(rows: Iterable[PlacementRow]) -> tuple[tuple[str, ...], Cells]:
    """Header and lines: MB of variables and slots by device, and at most where the device tells."""
    header = ("placement", "devices", "MB kept: variables and slots", "MB at most: device", "MB at most: process")
    lines: Cells = []
    for row in (row for row in rows if row.memory):
        kept, peak = (
            listed({name: digits(size / 1e6) for name, size in row.memory[key].items()}) or MISSING
            for key in ("kept_bytes", "peak_bytes")
        )
        lines.append((called(row), whole(row.devices), kept, peak, digits(row.memory["peak_rss_bytes"] / 1e6)))
    return header, lines


def remarks(rows: Sequence[PlacementRow]) -> list[str]:
    """What a reader of the table has to know."""
    kinds = {tuple(sorted((k, str(v)) for k, v in row.kernels.items())) for row in rows if row.kernels}
    out = [f"computed alike in all rows, seen in their graphs: {', '.join(f'{k} {v}' for k, v in kind)}"
           for kind in kinds if len(kinds) == 1]  # fmt: skip
    if len(kinds) > 1:
        texts = "; ".join(", ".join(f"{k} {v}" for k, v in kind) for kind in sorted(kinds))
        out.append(f"warning: the rows were not computed alike: {texts}")
    out += [f"merge: {text}" for text in dict.fromkeys(row.merge for row in rows if row.merge)]
    out += _waste(rows)
    if as_drawn(rows):
        out.append(
            "Batches were drawn for each number of devices: rows of different numbers did other work, so none is set "
            "beside another; data.scaling: strong or weak makes them comparable"
        )
    out += [*_needed(rows), *_fewer(rows), *_no_bounds(rows)]
    if diverged := ", ".join(f"{called(row)} on {row.devices}" for row in rows if row.diverged):
        out.append(f"warning: losses that are no numbers, so weighed against no other: {diverged}")
    left_out = ", ".join(f"{called(row)} on {row.devices}: {row.left_out}" for row in rows if row.left_out)
    if left_out:
        out.append(f"samples that are left out, since something was traced in them: {left_out}")
    hidden = ", ".join(f"{called(row)} on {row.devices}" for row in rows if row.kernels.get("xla") and not row.phases)
    if hidden:
        out.append(
            f"the profiler does not show on which device XLA's programs run, so not where the time goes: {hidden}"
        )
    out += [f"failed: {_of(row.values)}: {error}" for row in rows for error in row.errors]
    out += [f"no proof, so in no table of speeds: {_of(row.values)}" for row in rows if not row.proved]
    return out


def _waste(rows: Sequence[PlacementRow]) -> list[str]:
    """Devices that wait for longer examples of others, by the rows that have such."""
    shares: dict[str, list[str]] = {}
    for row in rows:
        if row.straggler_waste:
            text = f"waiting for longer examples of other devices {row.straggler_waste:.1%} (counted in batches)"
            shares.setdefault(text, []).append(f"{called(row)} on {row.devices}")
    return [f"{text}: {', '.join(names)}" for text, names in shares.items()]


def _fewer(rows: Sequence[PlacementRow]) -> list[str]:
    """Rows that stand on fewer repeats than others do."""
    shown = [row for row in rows if row.proved and row.group]
    most = max((row.repeats for row in shown), default=0)
    names = ", ".join(f"{called(row)} on {row.devices}: {row.repeats}" for row in shown if row.repeats < most)
    return [f"figures of fewer than {most} repeats, since some failed or are missing: {names}"] if names else []


def _no_bounds(rows: Sequence[PlacementRow]) -> list[str]:
    """Rows that were faster than they can be."""
    names = ", ".join(f"{called(row)} on {row.devices}" for row in rows if no_bound(row))
    if not names:
        return []
    text = "warning: steps shorter than their bound, whose ceilings were measured too low: it bounds nothing"
    return [f"{text}: {names}"]


def _needed(rows: Sequence[PlacementRow]) -> list[str]:
    """The repeats that speed-ups need whose intervals are wider than 10 %."""
    single = [row for row in rows if row.devices != 1 and row.speedup is not None and row.speedup.low is None]
    wide = {f"{called(row)} on {row.devices}": row.repeats_needed for row in rows if row.repeats_needed is not None}
    out = []
    if single:
        names = ", ".join(f"{called(row)} on {row.devices}" for row in single)
        text = "one repeat side by side tells no interval of these speed-ups, nor how many would be needed"
        out.append(f"{text}: {names}")
    if wide:
        names = ", ".join(f"{name}: {_reachable(count)}" for name, count in wide.items())
        out.append(
            "speed-ups whose 95 % interval is wider than 10 %, with the repeats that would make it 10 % wide if they "
            f"scatter on like this, with even odds: {names}"
        )
    return out


def _reachable(count: int) -> str:
    return str(count) if count <= MOST_REPEATS else f"more than {MOST_REPEATS}, which no sweep has"


def _of(values: object) -> str:
    return ", ".join(f"{key} {value}" for key, value in dict(values).items())  # type: ignore[call-overload]
