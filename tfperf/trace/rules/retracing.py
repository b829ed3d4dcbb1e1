"""Functions that are traced or compiled again while steps go on."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfperf.trace.rules.rule import Cost, Rule

if TYPE_CHECKING:
    from tfperf.trace.attribution import Attribution


def find(found: "Attribution") -> Iterator[Cost]:
    """All of it is given back where no step traces or compiles."""
    ms = found.account.sum("compilation")
    traces = [entry for entry in found.ledger if entry.kind == "trace"]
    kinds = traces or [entry for entry in found.ledger if entry.kind == "compilation"]
    if not kinds:
        yield Cost("functions are traced or compiled while steps go on; the profile does not tell which", ms, ms)
        return
    causes = dict.fromkeys(entry.cause for entry in kinds)
    names = ", ".join(dict.fromkeys(entry.function for entry in kinds))
    verb = "traced" if traces else "compiled"
    why = "; ".join(list(causes)[:2])
    yield Cost(f"{names}: {verb} anew {len(kinds)} times in {found.account.steps} steps: {why}", ms, ms)


SHAPES = "keep shapes, dtypes and Python arguments the same from step to step"
RULE = Rule(
    "retracing", "Functions are traced or compiled again", find,
    {
        "engine": SHAPES, "card": f"{SHAPES}: give all batches one size and all samples one length",
        "keras": f"{SHAPES}: pad to few lengths, and drop the remainder of .batch()",
        "loop": f"{SHAPES}: make the tf.function once, outside of the loop, pass numbers as tensors, and pad to few "
                "lengths or give it an input_signature",
        "jax": f"{SHAPES}: call jax.jit once, outside of the loop, and pad to few lengths",
    },
    before="""for number, (x, y) in enumerate(batches):  # batches of many lengths
    step(x, y, number)  # a new Python number each time""",
    after="""step = tf.function(step, input_signature=[...])
for number, (x, y) in enumerate(batches):
    step(pad(x), y, tf.constant(number))""",
)  # fmt: skip
