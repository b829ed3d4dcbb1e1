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
    half_precision,
    methods,
    py_functions,
    python_lines,
    retracing,
    short_operations,
    slow_xla,
    stragglers,
    table_updates,
    validation,
    waits,
)
from tfperf.trace.rules.rule import Finding, Rule

RULES: tuple[Rule, ...] = tuple(
    module.RULE
    for module in (
        retracing, methods, eager, python_lines, py_functions, callbacks, validation, waits, epochs, garbage,
        conversions, calls, short_operations, constants, table_updates, half_precision, slow_xla,
        stragglers, copies,
    )
)  # fmt: skip
HOST = frozenset(["eager", "python", "conversion", "calls", "short_operations"])  # rules of what recording adds to
OVERHEAD = 0.2  # of a step, from which what recording costs may look like a cause


def list_findings(found: Attribution) -> list[Finding]:
    """All that is worth a change; together they give back no more than a step takes.

    Where recording costs so much that more than what is left of a step cannot be told from it, what it may have caused
    itself is left out.
    """
    account = found.account
    costly = (account.overhead_ms or 0.0) > OVERHEAD * account.period_ms
    hidden = costly and account.overhead_left_ms > account.period_ms
    every = sorted(
        (one for rule in RULES for one in rule.list_findings(found) if rule.name not in HOST or not hidden),
        key=lambda finding: -finding.gain_ms,
    )
    return list(_limit(every, account.period_ms))


def _limit(findings: Sequence[Finding], period: float) -> Iterator[Finding]:
    """The findings, each with what those before it leave of the time."""
    left = period
    for one in findings:
        gain = min(one.gain_ms, left)
        left -= gain
        if gain > 0:
            yield replace(one, gain_ms=gain, bound_ms=max(gain, min(one.bound_ms, period)), share=gain / period)
