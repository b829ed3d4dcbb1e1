"""A workload of another package: numbers that gradient descent brings to a target."""

from typing import Any, Literal

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from tfperf.report.compare import Change
from tfperf.report.compare_reports import read_report
from tfperf.runcard.base_card import BaseCard
from tfperf.runcard.kinds import CardKind
from tfperf.runcard.schema import Grammar
from tfperf.runcard.types import STRICT, Fraction, Step
from tfperf.train.parts import keep_checkpoints
from tfperf.workloads.job import Job
from tfperf.workloads.workload import Workload


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ToyCard(BaseCard):
    """A card of workload toy."""

    workload: Literal["toy"] = Field(description="what kind of card this is")
    rate: Fraction = Field(default=0.1, description="of descent")
    steps: Step = Field(description="to take")


class Descent:
    """The training, which is a stepper, too."""

    steps_per_call, loops, optimizers = 10, 1, ("descent",)

    def __init__(self, card):
        import tensorflow as tf

        self.tf, self.card, self.steps, self.rate = tf, card, card.steps, card.rate
        self.numbers = tf.Variable(np.random.default_rng(card.seed).normal(size=1000))
        self._take = tf.function(self._descend)

    def _descend(self, steps):
        for _ in self.tf.range(steps):
            self.numbers.assign_sub(self.rate * (self.numbers - 1.0))

    def warm_up(self):
        start = self.numbers.numpy()
        self.call(1)
        self.numbers.assign(start)

    def call(self, steps):
        self._take(self.tf.constant(steps))
        return steps

    def losses(self):
        return [float(np.mean((self.numbers.numpy() - 1.0) ** 2))]

    def close(self):
        del self.numbers


class ToyFit(Job):
    """A loop of its own, with checkpoints."""

    def carry_out(self, part, parts):
        signals, descent = self.session.signals, Descent(self.card)
        checkpoints = keep_checkpoints(self.session.run, part)
        found, _ = checkpoints.load()
        step = int(found.get("step", 0))
        if step:
            descent.numbers.assign(found["numbers"])
            part.resumed_from_steps.append(step)
        with signals.patient():
            while step < self.card.steps:
                taken = min(descent.steps_per_call, self.card.steps - step)
                descent.call(taken)
                step += taken
                checkpoints.save(step, {"step": np.array(step), "numbers": descent.numbers.numpy()})
                signals.stop_if_asked(step)
        summary = {"loss": descent.losses()[0], "resumed_from_steps": part.resumed_from_steps}
        self.write(summary, {"numbers": descent.numbers.numpy()})


class Toy(Workload[ToyCard]):
    """Descent as a workload."""

    protocol, name, title = 1, "toy", "descent"
    kind = CardKind(Grammar(ToyCard), must={("steps",): 1})

    def plan(self, card, tell):
        return [f"steps       {card.steps}"]

    def job(self, card, session):
        return ToyFit(card, session)

    def stepper(self, card):
        return Descent(card)

    def compare(self, before, now):
        a, b = (read_report(folder, dict[str, Any])["loss"] for folder in (before, now))
        return [Change("loss", a, b, b - a, None, None)], []


WORKLOAD = Toy()
