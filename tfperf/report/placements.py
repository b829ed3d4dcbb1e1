"""A sweep over placements in tables and words, for terminal and page."""

from collections.abc import Iterable, Mapping, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tfperf.report.ablation import digits
from tfperf.report.numbers import MISSING
from tfperf.results.placements import Estimate, PlacementRow

Cells = list[tuple[str, ...]]
SPEED = (
    "placement", "devices", "batch a device", "total s", "words/s", "speed-up", "against best single", "bound ms",
    "of bound",
)  # fmt: skip
PHASES = ("computation", "merge", "update", "transfer")
SHARED = (
    "The devices are logical CPUs, which share this machine's cores: more of them add work, not speed. The bound of a "
    "row is all its arithmetic at the speed of all cores. These figures show what each placement costs in copies, "
    "merges and waiting; which one is fastest on GPUs they cannot tell, so nothing is recommended."
)


def placements_table(rows: Sequence[PlacementRow]) -> RenderableType:
    """The study's table for the terminal; plain characters when piped."""
    return Group(
        *(_table(f"{title}, batch fixed {how}", SPEED, speed_cells(some)) for title, how, some in scalings(rows)),
        *(Text(line) for line in remarks(rows)), Text(recommendation(rows)),
    )  # fmt: skip


def _table(title: str, header: Sequence[str], rows: Cells) -> Table:
    table = Table(title=Text(title), box=box.ASCII_DOUBLE_HEAD, title_justify="left")
    for i, name in enumerate(header):
        table.add_column(name, justify="right" if i else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def scalings(rows: Sequence[PlacementRow]) -> list[tuple[str, str, list[PlacementRow]]]:
    """Rows by how batch and devices go together: weak, then strong scaling, each with its rows of one device."""
    strong = [row for row in rows if row.scaling == "strong"]
    names = {row.placement for row in strong}
    out = [("Weak scaling", "on each device", [row for row in rows if row.scaling != "strong"])]
    if strong:
        alone = [row for row in rows if row.scaling == "alone" and row.placement in names]
        out.append(("Strong scaling", "over all devices", [*alone, *strong]))
    return out


def speed_cells(rows: Iterable[PlacementRow]) -> Cells:
    """A line for each row under SPEED."""
    return [
        (
            row.placement, whole(row.devices), whole(row.batch), within(row.total_s), within(row.words_per_second),
            within(row.speedup), within(row.against_best), digits(row.bound.get("bound_ms")), bound_share(row),
        )
        for row in rows
    ]  # fmt: skip


def bound_share(row: PlacementRow) -> str:
    """The bound over the measured time of a step."""
    if not row.bound or row.ms_per_step is None:
        return MISSING
    return f"{row.bound['bound_ms'] / row.ms_per_step.value:.0%}"


def device_cells(rows: Iterable[PlacementRow]) -> tuple[tuple[str, ...], Cells]:
    """Header and lines: forward and backward pass of each device and their mean, slowest device over the mean."""
    header = ("placement", "devices", "device", "forward ms", "backward ms", "slowest / mean", "forward growth")
    lines: Cells = []
    for row in (row for row in rows if row.phases):
        each = row.phases["devices"] | {"mean": row.phases["mean"]}
        for name, one in each.items():
            last = (digits(row.phases["imbalance"]), digits(row.growth)) if name == "mean" else ("", "")
            lines.append(
                (row.placement, whole(row.devices), name, digits(one["forward"]), digits(one["backward"]), *last)
            )
    return header, lines


def phase_cells(rows: Iterable[PlacementRow]) -> tuple[tuple[str, ...], Cells]:
    """Header and lines: of each phase over all devices its span and its busy time, and the share of each."""
    header = ("placement", "devices", "step ms", *(f"{name}, {kind}" for name in PHASES for kind in ("span", "busy")))
    lines: Cells = []
    for row in (row for row in rows if row.phases):
        parts = [row.phases["together"][name] for name in PHASES]
        cells = [
            f"{digits(part[f'{kind}_ms'])} ({part[f'{kind}_share']:.0%})" for part in parts for kind in ("span", "busy")
        ]
        lines.append((row.placement, whole(row.devices), digits(row.phases["step_ms"]), *cells))
    return header, lines


def lost_cells(rows: Iterable[PlacementRow]) -> tuple[tuple[str, ...], Cells]:
    """Header and lines: what takes the time above the bound."""
    names = ("computation", "merge", "update", "transfer", "input", "waiting")
    header = ("placement", "devices", *(f"{name} ms" for name in names), "most of it", "MB sent")
    lines: Cells = []
    for row in (row for row in rows if row.lost):
        sent = digits(row.bound["sent_bytes"] / 1e6)
        lines.append(
            (row.placement, whole(row.devices), *(digits(row.lost[n]) for n in names), next(iter(row.lost)), sent)
        )
    return header, lines


def memory_cells(rows: Iterable[PlacementRow]) -> tuple[tuple[str, ...], Cells]:
    """Header and lines: MB of variables and slots by device, and at most where the device tells."""
    header = ("placement", "devices", "MB kept: variables and slots", "MB at most: device", "MB at most: process")
    lines: Cells = []
    for row in (row for row in rows if row.memory):
        kept, peak = (
            listed({name: digits(size / 1e6) for name, size in row.memory[key].items()}) or MISSING
            for key in ("kept_bytes", "peak_bytes")
        )
        lines.append((row.placement, whole(row.devices), kept, peak, digits(row.memory["peak_rss_bytes"] / 1e6)))
    return header, lines


def listed(figures: Mapping[str, object], mark: str = "") -> str:
    """Figures behind their names and the mark, which no line break parts."""
    return ", ".join(f"{name}{mark}\N{NO-BREAK SPACE}{figure}" for name, figure in sorted(figures.items()))


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
    out += [f"failed: {row.placement} on {_of(row.values)}: {error}" for row in rows for error in row.errors]
    return out


def _waste(rows: Sequence[PlacementRow]) -> list[str]:
    """Padding, and devices that wait for longer sentences of others, by the rows that have it."""
    shares: dict[str, list[str]] = {}
    for row in rows:
        if row.padding_share is not None and row.straggler_waste is not None:
            text = f"padding {row.padding_share:.1%}, waiting for longer sentences of other devices "
            text += f"{row.straggler_waste:.1%} (counted in batches)"
            shares.setdefault(text, []).append(f"{row.placement} on {row.devices}")
    return [f"{text}: {', '.join(names)}" for text, names in shares.items()]


def recommendation(rows: Sequence[PlacementRow]) -> str:
    """One paragraph drawn from the numbers; on logical CPUs why there is none."""
    timed = [row for row in rows if row.words_per_second is not None]
    if not timed:
        return "No point was measured."
    if any(row.logical for row in timed):
        return SHARED
    best = max(timed, key=lambda row: _value(row.words_per_second))
    most = max(row.devices or 1 for row in timed)
    close = [row for row in timed if row.devices == best.devices and row is not best and _overlap(row, best)]
    text = f"Fastest: {best.placement} on {best.devices} devices, {within(best.words_per_second)} words/s"
    text += f", {within(best.speedup)} times one device." if best.devices != 1 else "."
    if close:
        text += f" Not told apart from it by these repeats: {', '.join(row.placement for row in close)}."
    if best.lost:
        name, ms = next(iter(best.lost.items()))
        text += (
            f" Above its bound of {digits(best.bound['bound_ms'])} ms a step it loses most in {name} ({digits(ms)} ms)."
        )
    if (best.devices or 1) < most:
        text += f" More devices do not help here: {most} are slower."
    return text


def _overlap(row: PlacementRow, best: PlacementRow) -> bool:
    one, other = row.words_per_second, best.words_per_second
    if one is None or other is None or one.high is None or other.low is None:
        return False
    return one.high >= other.low


def _value(estimate: Estimate | None) -> float:
    return 0.0 if estimate is None else estimate.value


def _of(values: object) -> str:
    return ", ".join(f"{key} {value}" for key, value in dict(values).items())  # type: ignore[call-overload]


def within(estimate: Estimate | None) -> str:
    """A figure with its interval: 12.3 [11.9, 12.7]; the figure alone where one repeat told nothing of chance."""
    if estimate is None:
        return MISSING
    if estimate.low is None or estimate.high is None:
        return digits(estimate.value)
    return f"{digits(estimate.value)} [{digits(estimate.low)}, {digits(estimate.high)}]"


def whole(value: int | None) -> str:
    """A count."""
    return MISSING if value is None else str(value)
