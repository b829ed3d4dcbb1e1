"""What a rule is, and what it finds."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tfperf.trace.notes import ProgramKind

if TYPE_CHECKING:
    from tfperf.trace.attribution import Attribution

LEAST = 0.05  # share of the time from step to step that a finding has to give back


@dataclass(frozen=True)
class Finding:
    """A cause, what it costs, and what to do.

    what: the cause, with its operation or line. ms: what it takes of the time from step to step, ms. gain_ms: how much
    of that the change is estimated to give back; bound_ms: how much it can give back at most. share: gain_ms, of the
    time from step to step (0 to 1). rule: the name of the rule that found it.
    """

    rule: str
    what: str
    ms: float
    gain_ms: float
    bound_ms: float
    share: float
    change: str


@dataclass(frozen=True)
class Cost:
    """What a rule's function finds: `what`, its ms a step, how many of them a change is estimated to give back.

    bound_ms: at most, by default all. change: in place of the rule's.
    """

    what: str
    ms: float
    gain_ms: float
    bound_ms: float | None = None
    change: str | None = None


@dataclass(frozen=True)
class Rule:
    """A cause that is known: how it is found, and the change in the words of each kind of program.

    before, after: a piece of a program with the cause, and without it. keys: the full key of a card by which a program
    of that kind is changed so, where there is one.
    """

    name: str
    title: str
    find: "Callable[[Attribution], Iterator[Cost]]"
    changes: Mapping[ProgramKind, str]
    before: str
    after: str
    least: float = LEAST
    keys: Mapping[ProgramKind, str] = field(default_factory=dict)

    def list_findings(self, found: "Attribution") -> Iterator[Finding]:
        """What it finds in a profile, where it is worth a change."""
        period = found.account.period_ms
        for cost in self.find(found):
            if not period or cost.gain_ms < self.least * period:
                continue
            bound = cost.ms if cost.bound_ms is None else cost.bound_ms
            change = cost.change or self.changes[found.program]
            yield Finding(self.name, cost.what, cost.ms, cost.gain_ms, bound, cost.gain_ms / period, change)


def format_times(count: float) -> str:
    """How often, in words.

    >>> format_times(1), format_times(3)
    ('once', '3 times')
    """
    return "once" if round(count) == 1 else f"{count:.0f} times"
