"""Python's garbage collector."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfperf.trace.rules.rule import Cost, Rule, format_times

if TYPE_CHECKING:
    from tfperf.trace.attribution import Attribution

FULL = "generation 2"


def find(found: "Attribution") -> Iterator[Cost]:
    """All of it is given back where nothing is collected.

    A single look through all objects tells nothing of how often they come: Python takes one where many objects are new,
    as after models are built.
    """
    account = found.account
    charges = account.list("garbage")
    full = account.steps * sum(charge.times for charge in charges if charge.name == FULL)
    several = round(full) > 1
    repeated = [charge for charge in charges if several or charge.name != FULL]
    times = full if several else account.steps * sum(charge.times for charge in repeated)
    what = f"Python's garbage collector looks through {'all' if several else 'young'} objects {format_times(times)}"
    ms = sum(charge.ms for charge in repeated)
    yield Cost(what, ms, ms)


FREEZE = "call gc.collect() and gc.freeze() once before training, and make fewer objects in each step"
RULE = Rule(
    "garbage", "Garbage collection", find,
    {"engine": FREEZE, "card": FREEZE, "keras": FREEZE, "loop": FREEZE, "jax": FREEZE},
    before="model.fit(data)  # with millions of Python objects alive",
    after="gc.collect()\ngc.freeze()\nmodel.fit(data)",
)  # fmt: skip
