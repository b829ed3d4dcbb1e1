"""What `tfperf input --apply` has changed, by how much, and what it offers."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table

UNREPEATABLE = (
    "two readings of the data differ: types and shapes alone were compared, and only settings tried that by their "
    "nature leave elements and order as they are"
)


def list_applied_lines(applied: Mapping[str, Any]) -> list[str]:
    """What was changed, proved, and offered."""
    lines = [] if applied["repeatable"] else [UNREPEATABLE]
    if not applied["changed"]:
        lines.append(f"nothing wins beyond chance, no card is written{': ' if applied['why'] else ''}{applied['why']}")
    lines += [
        f"changed {one['key']}: {format_value(one['before'])} to {format_value(one['after'])}, "
        f"{format_ratio(one['ratio'])} as fast as before it"
        for one in applied["changed"]
    ]
    if applied["changed"] and applied["ratio"] is not None:
        lines.append(_describe_proof(applied))
    lines += [
        f"not taken: {', '.join(f'{key}: {format_value(value)}' for key, value in one['values'].items())}, "
        f"{format_ratio(one['ratio'])} as fast: {one['why']}"
        for one in applied["offered"]
    ]
    return lines + ([f"card written beside this report: {applied['card']}"] if applied["card"] else [])


def make_applied_table(applied: Mapping[str, Any]) -> Table:
    """Changes and offers, a row each."""
    table = Table("key", "before", "after", "times as fast", "taken")
    for one in applied["changed"]:
        values = (format_value(one["before"]), format_value(one["after"]))
        table.add_row(one["key"], *values, format_ratio(one["ratio"]), "yes")
    for one in applied["offered"]:
        for key, value in one["values"].items():
            table.add_row(key, "", format_value(value), format_ratio(one["ratio"]), f"no: {one['why']}")
    return table


def format_ratio(ratio: Mapping[str, Any]) -> str:
    """A ratio with its interval.

    >>> format_ratio({"value": 1.5, "low": 1.25, "high": 1.8})
    '1.50 [1.25, 1.80] times'
    """
    limits = "" if ratio["low"] is None or ratio["high"] is None else f" [{ratio['low']:.2f}, {ratio['high']:.2f}]"
    return f"{ratio['value']:.2f}{limits} times"


def _describe_proof(applied: Mapping[str, Any]) -> str:
    alone = f"all of it: the data alone {format_ratio(applied['ratio'])} as fast as the card as it is"
    device = applied["ratio_device"]
    if device is None:
        return alone
    step = f"{1e3 * applied['step_seconds']:.3g} ms"
    return f"{alone}; with a device that computes {step} a step beside the processor {format_ratio(device)}"


def format_value(value: Any) -> str:
    """As a card has it, in one line.

    >>> format_value(None), format_value(True), format_value({"decode": 4})
    ('null', 'true', '{decode: 4}')
    """
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {format_value(one)}' for key, one in value.items())}}}"
    words = {None: "null", True: "true", False: "false"}
    return words[value] if value is None or isinstance(value, bool) else str(value)
