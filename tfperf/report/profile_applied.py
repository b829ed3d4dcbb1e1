"""What `tfperf profile --apply` has tried, what it gained beside what was estimated, and what no key changes."""

from collections.abc import Mapping
from typing import Any

from tfperf.report.ablation import format_digits
from tfperf.report.input_applied import format_value
from tfperf.report.page import render_paragraph, render_table

OUTCOMES = {
    "kept": "wins beyond chance: kept", "small": "wins by less than 1 %: not kept",
    "same": "no difference beyond chance: not kept", "slower": "slower beyond chance: not kept",
    "unknown": "nobody can tell: not kept", "refused": "cannot be had",
}  # fmt: skip
Record = Mapping[str, Any]


def list_change_lines(applied: Record) -> list[str]:
    """What was tried, what is left, and where the card is."""
    lines = [_describe_change(one) for one in applied["tried"]]
    lines += [f"left out, far from the others: {turn}" for one in applied["tried"] for turn in one["left_out"]]
    lines += [f"not changed by the card: {one['what']}: {one['why']}" for one in applied["left"]]
    if applied["card"]:
        told = "profiled in its turn, it tells what is left"
        return [*lines, f"card written beside this report: {applied['card']}; {told}"]
    return [*lines, f"no card is written: {_explain_none(applied)}"]


def _explain_none(applied: Record) -> str:
    if applied["tried"] and all(one["outcome"] == "refused" for one in applied["tried"]):
        return "no change that was tried could be measured"
    if applied["tried"]:
        return "no change that was tried wins beyond chance"
    return "no finding is one that a key of the card can change" if applied["left"] else "there are no findings"


def _describe_change(one: Record) -> str:
    """A change that was tried, in a line: both times, the gain with its interval, the estimate, what became of it."""
    said = f"tried {one['key']}: {format_value(one['after'])} in place of {format_value(one['before'])}"
    if one["before_ms"] is None:
        return f"{said}: {OUTCOMES[one['outcome']]}: {one['why']}"
    before, after = map(format_digits, (one["before_ms"], one["after_ms"]))
    return (
        f"{said}: {before} to {after} ms a step where nothing is recorded, in {len(one['turns_ms'])} turns; gains "
        f"{_format_gain(one)}, {format_digits(one['predicted_ms'])} were estimated; {OUTCOMES[one['outcome']]}"
    )


def _format_gain(one: Record) -> str:
    """In ms a step, with what chance may do to it: half the width of its 95 % interval."""
    if one["before_ms"] is None:
        return "n/a"
    chance = "chance n/a" if one["chance_ms"] is None else f"± {format_digits(one['chance_ms'])}"
    return f"{one['before_ms'] - one['after_ms']:.3g} ms ({chance})"


def render_changes(applied: Record) -> str:
    """A table of what was tried, and the rest in words."""
    rows = [
        (
            one["key"], format_value(one["before"]), format_value(one["after"]),
            *("n/a" if ms is None else format_digits(ms) for ms in (one["before_ms"], one["after_ms"])),
            _format_gain(one), format_digits(one["predicted_ms"]),
            f"{OUTCOMES[one['outcome']]}{': ' if one['why'] else ''}{one['why']}",
        )
        for one in applied["tried"]
    ]  # fmt: skip
    header = (
        "key", "before", "after", "ms a step before", "ms a step after", "gain a step", "estimated, ms", "outcome",
    )  # fmt: skip
    table = render_table(header, rows, kind="text") if rows else ""
    return table + "".join(map(render_paragraph, list_change_lines(applied)[len(rows) :]))
