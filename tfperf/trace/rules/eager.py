"""Steps whose operations are started one by one from Python."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfperf.trace.rules.rule import Cost, Rule

if TYPE_CHECKING:
    from tfperf.trace.attribution import Attribution

FEWEST = 15  # eager operations a step from which it is no compiled step with some of them around
CALL, EACH = 6.0, 0.08  # what a compiled call takes, and each of its operations, beside what one takes eagerly


def is_eager(found: "Attribution") -> bool:
    """Whether no compiled function computes gradients or updates, and Python starts many operations a step."""
    eager = sum(cost.count for cost in found.costs if cost.eager)
    compiled = any(cost.phase in ("backward", "update") and not cost.eager for cost in found.costs)
    return eager >= FEWEST and not compiled


def find(found: "Attribution") -> Iterator[Cost]:
    """What starts operations; a compiled call has some overhead, too."""
    if is_eager(found):
        count = sum(cost.count for cost in found.costs if cost.eager)
        kernels = min(found.short_kernels_ms, found.account.sum("eager_work"))
        ms = found.account.sum("eager", "python", "dispatch") + kernels
        gain = ms - (CALL + EACH * count) * ms / count
        yield Cost(f"eager execution: Python starts {count:.0f} operations a step one by one", ms, gain)


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
