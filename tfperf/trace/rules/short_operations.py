"""Operations that are too short for what it takes to start them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfperf.trace.launches import SHORT_US
from tfperf.trace.rules.rule import Cost, Rule

if TYPE_CHECKING:
    from tfperf.trace.attribution import Attribution

SHORT = 0.5  # share of operations that are short


def find(found: "Attribution") -> Iterator[Cost]:
    """The time between them; XLA makes few programs of them. Kernels of an accelerator count, where there is one."""
    accelerators = {d: a for d, a in found.any.items() if "CPU" not in d} or found.any
    busiest = max(accelerators, key=lambda device: float(accelerators[device].sum()))
    launches = found.launches[busiest]
    if launches.short > SHORT and not found.compiled:
        ms = found.account.sum("between")
        yield Cost(
            f"between {launches.per_step:.0f} short operations a step nothing runs: {launches.short:.0%} of them take "
            f"less than {SHORT_US:g} us", ms, ms,
        )  # fmt: skip


RULE = Rule(
    "short_operations", "Operations are short", find,
    {
        "engine": "set engine.xla: true, or train more replicas at once", "card": "set engine.xla: true",
        "keras": "set jit_compile=True of compile(), or raise the batch size",
        "loop": "compile the step with @tf.function(jit_compile=True)",
        "jax": "put the whole step into one jax.jit",
    },
    before="model.compile(optimizer, loss, jit_compile=False)",
    after="model.compile(optimizer, loss, jit_compile=True)",
    keys={"engine": "engine.xla", "card": "engine.xla"},
)  # fmt: skip
