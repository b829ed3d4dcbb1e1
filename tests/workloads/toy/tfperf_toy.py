"""A workload of another package: numbers that gradient descent brings to a target."""

from functools import partial
from typing import Literal

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from tfperf.measure.quiet import drop_native_logs
from tfperf.runcard.base_card import BaseCard
from tfperf.runcard.kinds import CardKind
from tfperf.runcard.schema import Grammar
from tfperf.runcard.types import STRICT, Fraction, Step
from tfperf.workloads.stepper_fit import SteppedFit, compare_stepped
from tfperf.workloads.workload import Workload


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ToyCard(BaseCard):
    """A card of workload toy."""

    workload: Literal["toy"] = Field(description="what kind of card this is")
    rate: Fraction = Field(default=0.1, description="of descent")
    steps: Step = Field(description="to take")


class DescentStepper:
    """The training: a loop of its own."""

    steps_per_call, loops, optimizers = 10, 1, ("descent",)

    def __init__(self, card):
        with drop_native_logs():
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

    def list_losses(self):
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
    kind = CardKind(Grammar(ToyCard), required={("steps",): 1})
    compare = staticmethod(compare_stepped)

    def describe_card(self, card, show_stage):
        return [f"steps       {card.steps}"]

    def build_job(self, card, session):
        return SteppedFit(card, session, partial(DescentStepper, card), checkpoint_every=10)

    def build_stepper(self, card):
        return DescentStepper(card)


WORKLOAD = Toy()
