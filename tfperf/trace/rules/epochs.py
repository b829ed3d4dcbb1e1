"""What it takes to end a pass over the data and begin the next."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfperf.trace.rules.rule import Cost, Rule, format_times
from tfperf.trace.rules.waits import is_iterator_made_anew

if TYPE_CHECKING:
    from tfperf.trace.attribution import Attribution


FEWEST = 1.5  # times that a pass over the data begins, from which on one can say how often it does


def find(found: "Attribution") -> Iterator[Cost]:
    """Where epochs are so long that it does not matter, all of it is given back; of one alone nobody knows how long."""
    ms, epochs = found.account.sum("epoch"), found.account.epochs
    times = sum(one.times for one in found.account.list("epoch")) * found.account.steps
    if (found.account.expected_epochs is None and times < FEWEST) or is_iterator_made_anew(found):
        return
    often = f", {format_times(epochs)} in {found.account.steps} steps" if epochs else ""
    yield Cost(f"a pass over the data ends and another begins{often}", ms, ms)


RULE = Rule(
    "epoch", "Epochs are short", find,
    {
        "engine": "raise train.steps_per_call", "card": "let an epoch have more steps (train.steps_per_epoch)",
        "keras": "let an epoch have more steps: give a dataset that repeat()s, and steps_per_epoch; what comes once an "
        "epoch, such as validation, comes less often then",
        "loop": "make the dataset's iterator once: repeat() it and take steps by number",
        "jax": "make the iterator once, and take steps by number",
    },
    before="model.fit(data, epochs=1000)  # of 8 batches each",
    after="model.fit(data.repeat(), epochs=10, steps_per_epoch=800)",
    keys={"engine": "train.steps_per_call"},
)  # fmt: skip
