"""Steps whose operations are started one by one from Python."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfperf.trace.rules.lines import sum_functions
from tfperf.trace.rules.rule import Cost, Rule

if TYPE_CHECKING:
    from tfperf.trace.attribution import Attribution

FEWEST = 15  # eager operations a step from which it is no compiled step with some of them around
MOST = 2  # functions that are told
ASSIGNS = re.compile(r"Assign\w*VariableOp|ResourceApply|ResourceScatter")
CALL = 6.0  # what a compiled call takes to be started, beside what one operation takes eagerly


def count_eager(found: "Attribution") -> float:
    """Operations a step that Python starts."""
    return sum(cost.count for cost in found.costs if cost.eager)


def is_eager(found: "Attribution") -> bool:
    """Whether Python starts many operations a step, most of the work, and no compiled function computes gradients."""
    compiled = [cost for cost in found.costs if not cost.eager and cost.phase != "input"]
    trains = any(cost.phase in ("backward", "update") or ASSIGNS.match(cost.kind) for cost in compiled)
    if count_eager(found) < FEWEST or trains:
        return False
    return sum(cost.ms for cost in compiled) <= sum(cost.ms for cost in found.costs if cost.eager)


def find(found: "Attribution") -> Iterator[Cost]:
    """What starts operations, of the whole step or beside a compiled one; the whole step's call has to be started."""
    count, work = count_eager(found), found.account.sum("eager_work")
    kernels = min(found.short_kernels_ms, work)
    if is_eager(found):
        others = sum(one.python_ms for one in sum_functions(found.account) if one.alone)
        ms = found.account.sum("eager", "python", "dispatch") + kernels - others
        what = f"eager execution: Python starts {count:.0f} operations a step one by one"
        change = RULE.changes["loop"] if found.notes.own_train_function else None
        yield Cost(what, ms, ms - _estimate_start(found, ms, count), ms + work - kernels, change)
    elif count >= FEWEST:
        mine = sorted((one for one in sum_functions(found.account) if one.starts), key=lambda one: -one.eager_ms)
        if mine:
            ms = max(0.0, sum(one.python_ms + one.eager_ms for one in mine) - (work - kernels))
            where = ", ".join(f"{one.line} in {one.function}" for one in mine[:MOST])
            yield Cost(f"beside the compiled step Python starts {count:.0f} operations one by one, at {where}", ms, ms)


def _estimate_start(found: "Attribution", ms: float, count: float) -> float:
    """ms of the start of one call, as long as that of CALL operations or of a function that steps call already."""
    dispatch, calls = found.account.sum("dispatch"), sum(one.times for one in found.account.list("dispatch"))
    of_operations = CALL * (ms - dispatch) / count
    return min(of_operations, dispatch / calls) if calls >= 1 else of_operations


RULE = Rule(
    "eager", "Steps run eagerly", find,
    {
        "engine": "compile the step", "card": "leave run_eagerly of compile() at False",
        "keras": "leave run_eagerly of compile() at False, and tf.config.run_functions_eagerly alone",
        "loop": "put the whole step into one @tf.function: forward pass, gradient and update",
        "jax": "put the whole step into one jax.jit",
    },
    before="""def step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_of(model(x), y)
    optimizer.apply(tape.gradient(loss, variables), variables)""",
    after="""@tf.function
def step(x, y): ...  # the same lines""",
)  # fmt: skip
