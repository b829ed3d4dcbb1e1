"""Python code of the program's that runs between operations."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfperf.trace.claims import Cause
from tfperf.trace.rules.eager import is_eager
from tfperf.trace.rules.rule import Cost, Rule

if TYPE_CHECKING:
    from tfperf.trace.attribution import Attribution

CAUSES: tuple[Cause, ...] = ("python", "eager", "eager_work")
KERAS = "keras/src/"  # how lines of Keras' own begin


def find(found: "Attribution") -> Iterator[Cost]:
    """By function, which lines of one do together; all of it is given back."""
    if is_eager(found):
        return
    lines: dict[str, dict[str, float]] = {}
    for charge in (one for cause in CAUSES for one in found.account.list(cause)):
        if charge.name and not charge.name.startswith(KERAS):
            place, _, function = charge.name.partition(" in ")
            file = place.rpartition(":")[0]
            mine = lines.setdefault(f"{file} {function}", {})
            mine[place] = mine.get(place, 0.0) + charge.ms
    for mine in lines.values():
        longest = max(mine, key=lambda place: mine[place])
        function = next(
            charge.name.partition(" in ")[2]
            for charge in found.account.charges
            if charge.name.startswith(f"{longest} in ")
        )
        ms = sum(mine.values())
        yield Cost(f"Python code at {longest}, in {function}, runs while devices wait", ms, ms)


LESS = "move it out of the loop, into the compiled step, or do it every few hundred steps"
RULE = Rule(
    "python", "Python code between operations", find,
    {
        "engine": LESS, "card": LESS, "keras": LESS, "loop": LESS,
        "jax": LESS,
    },
    before="""for x, y in batches:
    loss = step(x, y)
    losses.append(compute_score(loss.numpy()))  # waits for the step, then keeps the next one waiting""",
    after="""for x, y in batches:
    loss = step(x, y)
    metric.update_state(loss)  # inside of the compiled step, or every 100 steps""",
)  # fmt: skip
