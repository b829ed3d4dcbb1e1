"""Validation during a training."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfperf.trace.phases import PHASES
from tfperf.trace.rules.rule import Cost, Rule

if TYPE_CHECKING:
    from tfperf.trace.attribution import Attribution


def find(found: "Attribution") -> Iterator[Cost]:
    """Between calls and inside; half as much of it gives back half."""
    inside = sum(
        charge.ms for charge in found.account.list("work") if charge.name == PHASES[PHASES.index("validation")]
    )
    ms = found.account.sum("validation") + inside
    yield Cost("validation", ms, ms)


RULE = Rule(
    "validation", "Validation takes time", find,
    {
        "engine": "raise train.steps_per_call: losses of all points are made once a call",
        "card": "validate less often or with fewer samples",
        "keras": "raise validation_freq of fit(), use fewer validation_steps, or larger validation_batch_size",
        "loop": "validate less often, with fewer samples, or take the loss from the training's forward pass",
        "jax": "validate less often, or with fewer samples",
    },
    before="model.fit(data, validation_data=held, epochs=100)",
    after="model.fit(data, validation_data=held, epochs=100, validation_freq=5)",
    least=0.1,
    keys={"engine": "train.steps_per_call"},
)  # fmt: skip
