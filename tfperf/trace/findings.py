"""What a profile says should be changed, what gives back most first."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tfperf.trace.attribution import Attribution
from tfperf.trace.rules import (
    callbacks,
    calls,
    constants,
    conversions,
    copies,
    eager,
    epochs,
    garbage,
    py_functions,
    python_lines,
    retracing,
    short_operations,
    stragglers,
    table_updates,
    validation,
    waits,
)
from tfperf.trace.rules.rule import Finding, Rule

RULES: tuple[Rule, ...] = tuple(
    module.RULE
    for module in (
        retracing, eager, python_lines, py_functions, callbacks, validation, waits, epochs, garbage, conversions, calls,
        short_operations, constants, table_updates, stragglers, copies,
    )
)  # fmt: skip
OVERHEAD = 0.2  # more than recording may cost a call for what it costs itself to be told from the program's


def list_findings(found: Attribution) -> list[Finding]:
    """All that is worth a change; together they give back no more than a step takes."""
    every = sorted(
        (finding for rule in RULES for finding in rule.list_findings(found)), key=lambda finding: -finding.gain_ms
    )
    return list(_limit(every, found.account.period_ms))


def _limit(findings: Sequence[Finding], period: float) -> Iterator[Finding]:
    """The findings, each with what those before it leave of the time."""
    left = period
    for one in findings:
        gain = min(one.gain_ms, left)
        left -= gain
        if gain > 0:
            yield replace(one, gain_ms=gain, share=gain / period)
