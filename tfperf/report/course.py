"""Where the time of a step goes, in words: each statement is true of the trace that it is made from."""

from collections.abc import Mapping
from typing import Any

from tfperf.report.ablation import format_digits
from tfperf.results.placements import PlacementRow

AGREE = 0.1  # how far traced steps may be from the timed ones for their parts to explain them
NEARLY_LONGEST = 0.9  # of the longest part: what is as long is named beside it
MOST_UNKNOWN = 0.1  # of a step
PARTS = {
    "chain": "the steps of recurrent layers, one after the other",
    "computation": "what the passes compute outside of recurrent layers",
    "merge": "sums of gradients",
    "update": "updates",
    "transfer": "reads of variables, look-ups and copies",
    "input": "the input",
    "queue": "operations that could have begun, but had to wait for {what}, which others had",
    "runtime": "the runtime's way from one operation to the next",
    "host": "the host's work around calls and outside of phases",
}
SHORT = {
    "passes": "passes that run elsewhere",
    "queue": "{what}, which others had",
    "unknown": "something that the trace does not show",
}


def explain(row: PlacementRow) -> list[str]:
    """What a row with a trace says; nothing for one without."""
    if not row.phases:
        return []
    first = [*describe_other_run(row.phases), describe_largest_parts(row), describe_chain(row.phases)]
    return [*first, *describe_waiting(row), *describe_unattributed(row.phases)]


def is_like_timed(phases: Mapping[str, Any]) -> bool:
    """Whether the traced steps took as long as the timed ones."""
    return bool(abs(phases["agrees"] - 1) <= AGREE)


def describe_other_run(phases: Mapping[str, Any]) -> list[str]:
    """That a trace is of other steps than the timed ones, and why; nothing where both took as long."""
    if is_like_timed(phases):
        return []
    traced, timed, beside = (phases[f"{name}_ms"] for name in ("traced", "timed", "beside"))
    text = (
        f"This explains another run: traced steps took {format_digits(traced)} ms, the timed ones "
        f"{format_digits(timed)} ms, and those beside the traced ones that were not recorded {format_digits(beside)} ms"
    )
    if traced > (1 + AGREE) * beside:
        more = phases["slower"] - 1
        cost = f", and cost {more:.0%} more processor time" if more > AGREE else ""
        return [f"{text}: recording made them slower than those{cost}."]
    if (beside - timed) / (traced - timed) < 0.5:  # those beside were more like the timed ones
        return [f"{text}."]
    return [f"{text}: the machine was {'slower' if beside > timed else 'faster'} then."]


def describe_largest_parts(row: PlacementRow) -> str:
    """The longest part of what the end of a step waits for, with those that are about as long."""
    course, step = row.phases["course"], row.phases["step_ms"]
    names = select_largest(course)
    said = ", and ".join(f"{_describe_part(name, row)}: {_format_ms(course[name], step)}" for name in names)
    which = "The largest part is" if len(names) == 1 else "The largest parts, about as long, are"
    return f"A traced step took {format_digits(step)} ms. {which} {said}."


def select_largest(course: Mapping[str, float]) -> list[str]:
    """The longest part, and those that are as long but for a tenth."""
    most = max(course.values())
    return [name for name, ms in sorted(course.items(), key=lambda item: -item[1]) if ms >= NEARLY_LONGEST * most]


def describe_chain(phases: Mapping[str, Any]) -> str:
    """The longest chain of operations."""
    found, step = phases["critical"], phases["step_ms"]
    text = f"The longest chain of operations that wait for each other takes {_format_ms(found['ms'], step)} of a step"
    if not found["phases"]:
        return f"{text}."
    loops = f"; {format_digits(found['loops_ms'])} ms are steps of recurrent layers" if found["loops_ms"] > 0 else ""
    names = select_largest(found["phases"])
    said = " and ".join(f"{name}, {format_digits(found['phases'][name])} ms" for name in names)
    which = "the largest part" if len(names) == 1 else "the largest parts"
    if found["phases"][names[0]] > found["ms"] / 2 and len(names) == 1:
        which = "most of it"
    return f"{text}, {which} {said}{loops}."


def describe_waiting(row: PlacementRow) -> list[str]:
    """The device that has nothing running for longest, and what it waits for."""
    each = {name: one for name, one in row.phases["devices"].items() if name != "host"}
    name = max(each, key=lambda name: each[name]["waiting"], default="")
    if not name or not each[name]["waits"]:
        return []
    waits, step = each[name]["waits"], row.phases["step_ms"]
    most = max(waits, key=lambda what: waits[what])
    alone = "" if len(each) == 1 else ", longest of the devices"
    if level := [o for o in each if o != name and each[o]["waiting"] >= NEARLY_LONGEST * each[name]["waiting"]]:
        alone = f", about as long as {', '.join(level)}"
    return [
        f"{name} has nothing running for {_format_ms(each[name]['waiting'], step)} of a step{alone}, "
        f"{format_digits(waits[most])} ms of it for {describe_wait(most, row)}."
    ]


def describe_unattributed(phases: Mapping[str, Any]) -> list[str]:
    """That too much of a step is not known what for."""
    share, each = phases["unattributed"], phases["devices"]
    if share <= MOST_UNKNOWN:
        return []
    name = max(each, key=lambda name: each[name]["unattributed"])
    return [f"On {'the ' if name == 'host' else ''}{name} it is not known what {share:.0%} of a step go to."]


def describe_wait(name: str, row: PlacementRow) -> str:
    """What a device waits for, in few words."""
    return _fill_in(SHORT.get(name) or PARTS.get(name, ""), row) or name


def _describe_part(name: str, row: PlacementRow) -> str:
    return _fill_in(PARTS.get(name, ""), row) or name


def _fill_in(text: str, row: PlacementRow) -> str:
    return text.format(what=_describe_shared(row))


def _describe_shared(row: PlacementRow) -> str:
    """What devices of one kind or the other have to share."""
    return "a core" if row.logical else "a stream or a core"


def _format_ms(ms: float, step_ms: float) -> str:
    return f"{format_digits(ms)} ms ({ms / step_ms:.0%})"
