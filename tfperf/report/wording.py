"""How figures and rows of a sweep over placements are called."""

from collections.abc import Sequence

from tfperf.report.ablation import format_digits
from tfperf.report.numbers import MISSING
from tfperf.results.placements import Estimate, PlacementRow


def format_estimate(estimate: Estimate | None) -> str:
    """A figure with its interval: 12.3 [11.9, 12.7]; the figure alone where one repeat told nothing of chance.

    >>> format_estimate(Estimate(12.34, 11.9, 12.7)), format_estimate(Estimate(0.5)), format_estimate(None)
    ('12.3 [11.9, 12.7]', '0.500', 'n/a')
    """
    if estimate is None:
        return MISSING
    if estimate.low is None or estimate.high is None:
        return format_digits(estimate.value)
    return f"{format_digits(estimate.value)} [{format_digits(estimate.low)}, {format_digits(estimate.high)}]"


def format_count(value: int | None) -> str:
    """A count."""
    return MISSING if value is None else str(value)


def format_devices(devices: int | None) -> str:
    """1 device, 2 devices."""
    return f"{format_count(devices)} device{'' if devices == 1 else 's'}"


def format_placement(row: PlacementRow) -> str:
    """A row's placement, with its scaling where it has one."""
    return row.placement if row.scaling is None else f"{row.placement}, {row.scaling}"


def format_row_head(row: PlacementRow) -> tuple[str, str]:
    """The first cells of a row's line: its placement, its number of devices."""
    return format_placement(row), format_count(row.devices)


def format_like_work_title(rows: Sequence[PlacementRow]) -> str:
    """What rows of like work have in common."""
    first = rows[0]
    setting = (f", {first.setting}" if first.setting else "") + (", on logical CPUs" if first.logical else "")
    setting += ", with losses that are no numbers" if first.diverged else ""
    columns = f"{format_digits(first.columns)} columns a batch{setting}"
    if first.scaling == "strong":
        return f"Strong scaling: the same {first.pairs} examples a step, divided among the devices, {columns}"
    if first.scaling == "weak":
        return f"Weak scaling: {first.batch} examples on each device, of the same lengths, {columns}"
    return f"{format_devices(first.devices)}: {first.pairs} examples a step, {columns}"


def has_own_batches(rows: Sequence[PlacementRow]) -> bool:
    """Whether rows differ in their number of devices, and each had batches of its own."""
    return len({row.devices for row in rows if row.group and row.scaling is None}) > 1


def is_below_bound(row: PlacementRow) -> bool:
    """Whether a row's steps took less than their bound: then what the bound is made of was measured too low."""
    return bool(row.bound) and row.ms_per_step is not None and row.bound["bound_ms"] > row.ms_per_step.value
