"""Three questions on placements, answered from the rows of a sweep: each statement is true of what it is made from."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tfperf.report.ablation import format_digits
from tfperf.report.numbers import MISSING
from tfperf.report.wording import format_count, format_devices, format_estimate, format_row_head
from tfperf.results.placements import Answers, Estimate, ForwardGrowth, PlacementRow

Cells = list[tuple[str, ...]]
HeaderAndCells = tuple[tuple[str, ...], Cells]
FORWARD = "Does a forward pass take longer at equal work when other devices take theirs, and why?"
SLOWER = "Why is one device slower than the others?"
BUCKETING = "Does bucketing by length harm learning?"
CAUSES = {
    "sharing": "the devices share cores",
    "slowing": "cores slow each other, in caches and on the way to memory",
    "host": "the host has more to do for each device",
}
SO_NOT = {"sharing": "so they do not", "slowing": "so they do not", "host": "so it has not"}  # below 1 beyond chance
LATE = {"begins": "a later begin", "length": "longer examples", "pace": "a slower pace at the same work"}
GROWTH = (
    "Forward passes without dropout, the same on every device, timed without a trace in a point's first repeat: on one "
    "device alone, and on all at once. The growth by the clock is the product of three factors: passes over the "
    "cores at work; processor time of passes at once over that of the same in turn (it holds threads that wait busily "
    "for each other); processor time of passes in turn over that of as many by a graph for one device. [ ]: 95 % "
    "interval of the geometric mean over the trials, one for each placement."
)
LAST = (
    "From the trace: how far the end of a device's passes lies behind the mean over devices, in ms [limits that hold "
    "for all devices of a row with 95 % probability, if steps are independent], of the device where that is most; it "
    "is the sum of the three parts behind it. Length: the time that its examples' columns take beyond the mean; pace: "
    "what its passes take longer beyond that."
)
NOT_BUCKETED = (
    "Not measured here. `python -m benchmarks run buckets -o buckets.json` measures it in a run of its own; with that "
    "file in the folder of the sweep, the next report of it has the answer."
)


def answer_questions(rows: Sequence[PlacementRow], answers: Answers) -> list[tuple[str, list[str]]]:
    """Each question with its answer; without those that the rows cannot bear on, as where one device was measured."""
    out = []
    if answers.growth:
        out.append((FORWARD, describe_forward(answers.growth)))
    if said := describe_late_devices(rows):
        out.append((SLOWER, said))
    if out or answers.bucketing is not None:
        out.append((BUCKETING, list(answers.bucketing or [NOT_BUCKETED])))
    return out


def describe_forward(every: Sequence[ForwardGrowth]) -> list[str]:
    """What is known of each that has an interval, and how many have none."""
    known = [one for one in every if one.growth.low is not None]
    once = len(every) - len(known)
    more = f"{_format_sizes(once)} measured in one trial, which tells nothing of chance." if once else ""
    return [*(text for one in known for text in describe_growth(one)), *([more] if more else [])]


def _format_sizes(count: int) -> str:
    """One number of devices and size of batches was, two were."""
    sizes = (
        "number of devices and size of batches was" if count == 1 else "numbers of devices and sizes of batches were"
    )
    return f"{count} {sizes}"


def describe_growth(growth: ForwardGrowth) -> list[str]:
    """How the forward pass grew, and which factor is the largest where intervals tell them apart."""
    where = f"On {format_devices(growth.devices)} ({growth.batch} examples of {growth.columns} columns on each)"
    if growth.growth.low is None or growth.growth.high is None:
        return []
    if growth.growth.low <= 1 <= growth.growth.high:
        return [f"{where} it took {format_estimate(growth.growth)} times as long as alone: no growth beyond chance."]
    if growth.growth.high < 1:
        return [f"{where} it took less time than alone: {format_estimate(growth.growth)} times."]
    text = f"{where} it took {format_estimate(growth.growth)} times as long as alone"
    factors = {name: factor for name in CAUSES if (factor := getattr(growth, name)) is not None}
    if len(factors) < len(CAUSES) or growth.cores is None:
        return [f"{text}."]
    parts = [f"{CAUSES[name]}: {format_estimate(one)}{_describe_factor(name, one)}" for name, one in factors.items()]
    alone, at_once = growth.cores
    cores = f"{format_digits(alone)} cores were at work for one pass, {format_digits(at_once)} for all"
    return [f"{text}, the product of three: {'; '.join(parts)} ({cores}).", *_describe_largest(factors)]


def _describe_factor(name: str, factor: Estimate) -> str:
    """What a factor that is not above 1 beyond chance says of the cause that it stands for."""
    if factor.low is None or factor.high is None or factor.low > 1:
        return ""
    return f", {SO_NOT[name]}" if factor.high < 1 else ", within chance"


def _describe_largest(factors: Mapping[str, Estimate]) -> list[str]:
    first = max(factors, key=lambda name: factors[name].value)
    low, others = factors[first].low, [one.high for name, one in factors.items() if name != first]
    if low is None or low <= 1 or any(high is None or high >= low for high in others):
        return ["Which of them is the largest is within chance."]
    return [f"The largest is that {CAUSES[first]}."]


def describe_late_devices(rows: Sequence[PlacementRow]) -> list[str]:
    """In how many rows some device is late beyond chance, by how much, and by which part most; none without traces."""
    every = [(row, find_latest(row)) for row in rows if row.proved and row.phases.get("last")]
    if not every:
        return []
    late = [(row, one) for row, one in every if one["low"] is not None and one["low"] > 0]
    text = f"In {len(late)} of {len(every)} traced placements on several devices"
    if not late:
        return [f"{text} one device ends its passes later than the mean of all beyond the scatter of steps."]
    shares = [one["ends"] / row.phases["step_ms"] for row, one in late]
    counts = {name: sum(find_largest_part(one) == name for _, one in late) for name in LATE}
    causes = ", ".join(f"{LATE[name]} in {count or 'none'}" for name, count in counts.items())
    return [
        f"{text} one device ends its passes later than the mean of all beyond the scatter of steps, by "
        f"{min(shares):.0%} to {max(shares):.0%} of a step. Largest part of it: {causes}."
    ]


def find_latest(row: PlacementRow) -> dict[str, Any]:
    """The device whose passes end last on average, with its name."""
    found = row.phases["last"]
    name = max(found, key=lambda name: found[name]["ends"])
    return {"device": name, **found[name]}


def find_largest_part(one: Mapping[str, Any]) -> str:
    """The part of LATE that delays a device most."""
    return max(LATE, key=lambda name: float(one[name]))


def format_growth_cells(found: Iterable[ForwardGrowth]) -> HeaderAndCells:
    """A line for each number of devices and size of batches."""
    header = (
        "devices", "examples a device", "columns", "trials", "alone ms", "all at once / alone", "= cores shared",
        "x cores slowed", "x host", "cores at work: one pass, all",
    )  # fmt: skip
    return header, [(
        *map(format_count, (one.devices, one.batch, one.columns, one.trials)), format_digits(one.alone_ms),
        *map(format_estimate, (one.growth, one.sharing, one.slowing, one.host)),
        ", ".join(map(format_digits, one.cores)) if one.cores else MISSING,
    ) for one in found]  # fmt: skip


def format_last_cells(rows: Iterable[PlacementRow]) -> HeaderAndCells:
    """A line for each row with a trace of several devices."""
    header = (
        "placement", "devices", "ends last", "in steps", "behind the mean ms", "of step", "= begins later ms",
        "+ longer ms", "+ slower pace ms",
    )  # fmt: skip
    lines: Cells = []
    for row in (row for row in rows if row.proved and row.phases.get("last")):
        one = find_latest(row)
        limits = Estimate(one["ends"], one["low"], one["high"])
        lines.append((
            *format_row_head(row), one["device"], f"{one['last']:.0%} of {one['steps']}", format_estimate(limits),
            f"{one['ends'] / row.phases['step_ms']:.1%}", *(format_digits(one[name]) for name in LATE),
        ))  # fmt: skip
    return header, lines
