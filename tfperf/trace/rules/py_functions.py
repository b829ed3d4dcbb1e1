"""Python functions that a compiled step calls."""

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from tfperf.trace.phases import list_tails
from tfperf.trace.rules.rule import Cost, Rule

if TYPE_CHECKING:
    from tfperf.trace.attribution import Attribution

MOST = 3  # functions that are named


def find(found: "Attribution") -> Iterator[Cost]:
    """While no other operation runs; while others do they take a core from those."""
    charges = found.account.list("py_function")
    if charges:
        ms = sum(charge.ms for charge in charges)
        every = max(ms, sum(cost.ms for cost in found.costs if cost.phase == "callback"))
        gain = ms + (every - ms) / (found.notes.cores or 2)
        functions: dict[str, set[str]] = {}
        for name, said in found.notes.python_functions:
            functions.setdefault(name, set()).add(said)
        names = ", ".join(dict.fromkeys(_describe(charge.name, functions) for charge in charges[:MOST]))
        yield Cost(f"Python functions inside of the compiled step: {names}", gain, gain, every)


def _describe(event: str, functions: Mapping[str, Collection[str]]) -> str:
    """An operation by its name, with the function that it calls, or those that ones of that name in any graph do."""
    name = event.rpartition(":")[0]
    known = " or ".join(sorted(next((functions[one] for one in list_tails(name) if one in functions), ())))
    return f"{known} ({name})" if known else name or "unnamed"


OPERATIONS = "write them as TensorFlow operations, or do their work in the data pipeline"
RULE = Rule(
    "py_function", "Python functions in the compiled step", find,
    {
        "engine": OPERATIONS, "card": OPERATIONS, "keras": OPERATIONS, "loop": OPERATIONS,
        "jax": "write them in jax.numpy instead of pure_callback",
    },
    before="""y = tf.py_function(lambda t: np.clip(t.numpy(), 0, 1), [x], tf.float32)""",
    after="""y = tf.clip_by_value(x, 0, 1)""",
)  # fmt: skip
