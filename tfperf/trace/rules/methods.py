"""Methods of Keras models that go over data, called from a loop of the program's own."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfperf.trace.rules.rule import Cost, Rule

if TYPE_CHECKING:
    from tfperf.trace.attribution import Attribution

CALL_MS = 0.3  # what the call that takes its place costs
CHANGES = {
    "predict": "call model(x, training=False), best in a tf.function, or model.predict_on_batch(x)",
    "fit": "call model.train_on_batch(x, y), or `fit` once for many batches",
    "evaluate": "call model.test_on_batch(x, y), or `evaluate` less often",
}


def find(found: "Attribution") -> Iterator[Cost]:
    """What a method does beside its operations; a call without a dataset has some of that, too."""
    for charge in found.account.list("method"):
        method, _, line = charge.name.partition(" at ")
        what = f"{method} is called at {line}: each time it makes a dataset and its iterator, and ends them"
        gain = charge.ms - charge.times * CALL_MS
        yield Cost(what, charge.ms, gain, change=CHANGES.get(method))


ONE = "call the model itself on one batch: model(x), train_on_batch or predict_on_batch"
RULE = Rule(
    "method", "A method that goes over data is called in a step", find,
    {
        "engine": ONE, "card": ONE, "keras": ONE, "loop": ONE,
        "jax": ONE,
    },
    before="""for state in states:
    values = model.predict(state[None])  # makes a dataset of one sample""",
    after="""ask = tf.function(model)
for state in states:
    values = ask(state[None]).numpy()""",
)  # fmt: skip
