"""A workload of another package: numbers that gradient descent brings to a target."""

from functools import partial
from typing import Literal

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from tfperf.measure.quiet import native_logs_dropped
from tfperf.runcard.base_card import BaseCard
from tfperf.runcard.kinds import CardKind
from tfperf.runcard.schema import Grammar
from tfperf.runcard.types import STRICT, Fraction, Step
from tfperf.workloads.stepped import SteppedFit, compare_stepped
from tfperf.workloads.workload import Workload


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ToyCard(BaseCard):
    """A card of workload toy."""

    workload: Literal["toy"] = Field(description="what kind of card this is")
    rate: Fraction = Field(default=0.1, description="of descent")
    steps: Step = Field(description="to take")


class Descent:
    """The training: a loop of its own."""

    steps_per_call, loops, optimizers = 10, 1, ("descent",)

    def __init__(self, card):
        with native_logs_dropped():
            import tensorflow as tf

        self.tf, self.steps, self.rate = tf, card.steps, card.rate
        self.numbers = tf.Variable(np.random.default_rng(card.seed).normal(size=1000))
        self._take = tf.function(self._descend)

    def _descend(self, steps):
        for _ in self.tf.range(steps):
            self.numbers.assign_sub(self.rate * (self.numbers - 1.0))

    def warm_up(self):
        self.call(0)

    def call(self, steps):
        self._take(self.tf.constant(steps))
        return steps

    def losses(self):
        return [float(np.mean((self.numbers.numpy() - 1.0) ** 2))]

    def snapshot(self):
        return {"numbers": self.numbers.numpy()}

    def restore(self, snapshot):
        self.numbers.assign(snapshot["numbers"])

    def close(self):
        del self.numbers


class Toy(Workload[ToyCard]):
    """Descent as a workload."""

    protocol, name, title = 1, "toy", "descent"
    kind = CardKind(Grammar(ToyCard), must={("steps",): 1})
    compare = staticmethod(compare_stepped)

    def plan(self, card, tell):
        return [f"steps       {card.steps}"]

    def job(self, card, session):
        return SteppedFit(card, session, partial(Descent, card), checkpoint_every=10)

    def stepper(self, card):
        return Descent(card)


WORKLOAD = Toy()
