"""Python code of the program's that runs between operations."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfperf.trace.rules.eager import FEWEST, count_eager, is_eager
from tfperf.trace.rules.lines import sum_functions
from tfperf.trace.rules.rule import Cost, Rule

if TYPE_CHECKING:
    from tfperf.trace.attribution import Attribution


def find(found: "Attribution") -> Iterator[Cost]:
    """By function, which lines of one do together; all of it is given back."""
    eager, few = is_eager(found), count_eager(found) < FEWEST
    for one in sum_functions(found.account):
        if one.alone if eager else few or not one.starts:
            starts = "" if one.alone else ", with the operations that it starts,"
            what = f"Python code at {one.line}, in {one.function}{starts or ','} runs between the operations of steps"
            yield Cost(what, one.python_ms + one.eager_ms, one.python_ms + one.eager_ms)


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
