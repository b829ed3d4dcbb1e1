"""Python's garbage collector."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfperf.trace.rules.rule import Cost, Rule, format_times

if TYPE_CHECKING:
    from tfperf.trace.attribution import Attribution


def find(found: "Attribution") -> Iterator[Cost]:
    """All of it is given back where nothing is collected."""
    charges = found.account.list("garbage")
    times = sum(charge.times for charge in charges) * found.account.steps
    ms = sum(charge.ms for charge in charges)
    yield Cost(f"Python's garbage collector looks through all objects {format_times(times)}", ms, ms)


FREEZE = "call gc.collect() and gc.freeze() once before training, and make fewer objects in each step"
RULE = Rule(
    "garbage", "Garbage collection", find,
    {"engine": FREEZE, "card": FREEZE, "keras": FREEZE, "loop": FREEZE, "jax": FREEZE},
    before="model.fit(data)  # with millions of Python objects alive",
    after="gc.collect()\ngc.freeze()\nmodel.fit(data)",
)  # fmt: skip
