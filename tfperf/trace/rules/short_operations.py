"""Operations that are too short for what it takes to start them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfperf.trace.launches import SHORT_US
from tfperf.trace.rules.calls import list_repeated
from tfperf.trace.rules.rule import Cost, Rule

if TYPE_CHECKING:
    from tfperf.trace.attribution import Attribution

SHORT = 0.5  # share of operations that are short
SAVED = 0.9  # share of that time that compiled programs did without, 0.73 to 1.0 in those that were measured


def find(found: "Attribution") -> Iterator[Cost]:
    """Most of the time between them; XLA makes few programs of them. Kernels count, where there is an accelerator.

    On a processor some of their own time is no work, either. TensorFlow records none of the shortest there, so that the
    time of a call in which it records nothing is theirs, where that is most of the call.
    """
    accelerators = {d: a for d, a in found.any.items() if "CPU" not in d}
    every = accelerators or found.any
    if found.compiled or not every:
        return
    busiest = max(every, key=lambda device: float(every[device].sum()))
    launches, account = found.launches[busiest], found.account
    ms = account.sum("between") - sum(one.ms for one in list_repeated(found))
    if launches.short > SHORT:
        ms += 0.0 if accelerators else launches.starts * account.sum("work")
        yield Cost(
            f"between {launches.per_step:.0f} short operations a step nothing runs: {launches.short:.0%} of them take "
            f"less than {SHORT_US:g} us", SAVED * ms, SAVED * ms, ms,
        )  # fmt: skip
    elif not accelerators and len(every) == 1 and ms > account.sum("work"):
        yield Cost("most of a call goes to operations that are too short to be recorded", SAVED * ms, SAVED * ms, ms)


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
    least=0.1,
    keys={"engine": "engine.xla", "card": "engine.xla"},
)  # fmt: skip
