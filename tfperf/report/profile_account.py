"""Where the time from step to step goes, and what to change, in words."""

from collections.abc import Mapping, Sequence
from typing import Any

from tfperf.report.ablation import format_digits
from tfperf.trace.claims import Cause
from tfperf.trace.findings import RULES
from tfperf.trace.rules.rule import Rule

WORDS: Mapping[Cause, str] = {
    "garbage": "Python collects garbage", "compilation": "functions are traced and compiled",
    "callback": "a callback runs", "validation": "validation", "work": "operations run",
    "eager_work": "operations that Python starts run", "method": "a method of Keras goes over data",
    "py_function": "a Python function in a step", "conversion": "arguments are made tensors of",
    "input": "steps wait for input", "epoch": "a pass over the data ends, another begins",
    "dispatch": "a call is started or ended", "between": "in a call, between operations",
    "eager": "Python starts operations", "python": "Python code", "unexplained": "unexplained",
}  # fmt: skip
ENOUGH = 0.8  # share of the time near a ceiling from which on there is little to gain
LOOKED_AT: tuple[Cause, ...] = ("python", "eager", "eager_work")  # whose times are looks at the thread
OPERATIONS: tuple[Cause, ...] = ("work", "eager_work", "unexplained")
MUCH = 0.2  # share from which on a cause is told that has no finding
MOST_FINDINGS, SMALL = 3, 0.005  # in the verdict; share below which a row is left out
Record = Mapping[str, Any]


def describe_verdict(record: Record) -> list[str]:
    """At most five lines: the time, the first findings, and what nobody can explain."""
    period = record["account"]["period_ms"]
    work = sum(one["ms"] for one in record["account"]["charges"] if one["cause"] in ("work", "eager_work"))
    first = f"{format_digits(period)} ms from step to step; operations of steps run for {format_digits(work)} of them"
    lines = [f"{first} ({_format_share(work, period)})"]
    findings = record["findings"]
    for number, one in enumerate(findings[:MOST_FINDINGS], 1):
        lines.append(f"{number}. {describe_finding(one)}; {one['change']}")
    return [*lines, _describe_rest(record, period)]


def describe_finding(finding: Record) -> str:
    """What it is, and what a change is estimated to give back."""
    bound = f", at most {format_digits(finding['bound_ms'])}" if finding["bound_ms"] > 1.05 * finding["gain_ms"] else ""
    return f"{finding['what']}: gains {format_digits(finding['gain_ms'])} ms a step ({finding['share']:.0%}){bound}"


def _describe_rest(record: Record, period: float) -> str:
    unexplained = sum(one["ms"] for one in record["account"]["charges"] if one["cause"] == "unexplained")
    rest = f"{format_digits(unexplained)} ms a step are unexplained"
    if record["findings"]:
        count = len(record["findings"])
        return f"{count} finding{'s' if count > 1 else ''}; {rest}"
    if other := _describe_largest_cause(record, period):
        rest = f"{other}; {rest}"
    work = record["work"]
    near, far, unknown = (format_digits(work[key]) for key in ("near_ms", "far_ms", "unknown_ms"))
    if work["near_ms"] >= ENOUGH * period:
        said = f"nothing stands out: {near} of {format_digits(period)} ms are operations that reach over half"
        return f"{said} of what the machine can do; {rest}"
    said = f"no single change stands out: of {format_digits(period)} ms, {far} are operations that reach less than half"
    return f"{said} of what the machine can do, {unknown} operations of which that is not known; {rest}"


def _describe_largest_cause(record: Record, period: float) -> str:
    """What beside operations takes much of the time, though nothing is known that gives it back; else nothing."""
    times = {
        cause: sum(one["ms"] for one in record["account"]["charges"] if one["cause"] == cause)
        for cause in WORDS if cause not in OPERATIONS
    }  # fmt: skip
    cause = max(times, key=lambda one: times[one])
    if times[cause] < MUCH * period:
        return ""
    again = ", as in first calls, which a larger skip leaves out" if cause == "compilation" else ""
    return f"for {format_digits(times[cause])} ms {WORDS[cause]}{again}"


def list_account_rows(record: Record) -> list[tuple[str, str, str, str, str]]:
    """Cause, name, ms a step, share, how often a step: the largest first, but for what is small."""
    period = record["account"]["period_ms"]
    rows = sorted(record["account"]["charges"], key=lambda one: -float(one["ms"]))
    return [
        (
            WORDS[one["cause"]], one["name"], format_digits(one["ms"]), _format_share(one["ms"], period),
            f"{one['times']:.3g}" if one["times"] and one["cause"] not in LOOKED_AT else "",
        )
        for one in rows
        if one["ms"] > SMALL * period
    ]  # fmt: skip


def describe_account(record: Record) -> list[str]:
    """What has to be known to read it."""
    account, out = record["account"], []
    overhead = account["overhead_ms"]
    if overhead is None:
        out.append("what recording itself costs is not known: n/a; let the training go on for some calls after it")
    else:
        out.append(
            f"recording itself costs {format_digits(overhead)} ms a step, which is taken off the causes; times of "
            "phases, operations and devices are as they were recorded"
        )
        if left := account["overhead_left_ms"]:
            out.append(f"{format_digits(left)} ms of that are more than events explain, and come off everywhere")
    if account["expected_epochs"] is not None and account["epochs"]:
        seen, expected = account["epochs"], f"{account['expected_epochs']:.3g}"
        end = "epoch ends" if seen == 1 else "epochs end"
        out.append(f"{seen} {end} in what is recorded; a long training has {expected} in as many steps")
    slows: dict[Cause, float] = {}
    for one in account["charges"]:
        slows[one["cause"]] = slows.get(one["cause"], 0.0) + one.get("slows_ms", 0.0)
    out.extend(
        f"{WORDS[cause]}: {format_digits(ms)} ms of that are by how much it slows calls after or beside it"
        for cause, ms in slows.items() if ms > SMALL * account["period_ms"]
    )  # fmt: skip
    if account["samples"]:
        out.append(f"the lines of Python code are from {account['samples']} looks at the thread")
    return out


def find_rule(name: str) -> Rule:
    """The rule of that name."""
    return next(rule for rule in RULES if rule.name == name)


def render_rules(rules: Sequence[Rule] = RULES) -> str:
    """All rules as Markdown, for the documentation."""
    parts = []
    for rule in rules:
        changes = "\n".join(f"- {_KINDS[kind]}: {text}." for kind, text in rule.changes.items())
        pair = ("Before", rule.before), ("After", rule.after)
        blocks = "\n".join(f"{when}:\n\n```python\n{code}\n```\n" for when, code in pair)
        parts.append(f"## {rule.title}\n\n{changes}\n\n{blocks}")
    return "\n".join(parts)


_KINDS = {"engine": "Replica fits", "card": "Cards", "keras": "Keras' `fit`", "loop": "Loops of your own", "jax": "JAX"}


def _format_share(part: float, whole: float) -> str:
    return f"{part / whole:.0%}" if whole else "0%"
