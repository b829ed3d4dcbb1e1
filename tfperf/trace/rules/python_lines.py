"""Python code of the program's that runs between operations."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfperf.scopes import OF_LIBRARY
from tfperf.trace.claims import Cause
from tfperf.trace.rules.eager import is_eager
from tfperf.trace.rules.rule import Cost, Rule

if TYPE_CHECKING:
    from tfperf.trace.attribution import Attribution

CAUSES: tuple[Cause, ...] = ("python", "eager", "eager_work")


def find(found: "Attribution") -> Iterator[Cost]:
    """By function, which lines of one do together; all of it is given back."""
    if is_eager(found):
        return
    functions: dict[tuple[str, str], dict[str, float]] = {}  # by file and name: ms of each line
    for charge in (one for cause in CAUSES for one in found.account.list(cause)):
        if charge.name and not charge.name.endswith(OF_LIBRARY):
            line, _, function = charge.name.partition(" in ")
            lines = functions.setdefault((line.rpartition(":")[0], function), {})
            lines[line] = lines.get(line, 0.0) + charge.ms
    for (_, function), lines in functions.items():
        longest, ms = max(lines, key=lambda line: lines[line]), sum(lines.values())
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
