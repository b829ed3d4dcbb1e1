"""What a card amounts to, before anything is trained: `tfperf check`."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tfperf.layers.quadrature import quadrature
from tfperf.operators.problem import Problem, build_problem
from tfperf.operators.woodbury import whiten
from tfperf.runcard.config import FITTED, Card
from tfperf.runs.inputs import read_inputs

# resident memory of a process with TensorFlow imported and one small function compiled, as measured
BASE_BYTES = 820e6


@dataclass(frozen=True)
class Plan:
    """Sizes of a run."""

    replicas: int
    datasets: int
    points: int
    training_points: float  # mean over replicas
    positivity_points: int
    parameters: int  # trained, one replica
    steps: int
    memory_bytes: float  # predicted peak

    def lines(self) -> list[str]:
        """The plan for people."""
        return [
            f"replicas    {self.replicas}",
            f"datasets    {self.datasets}",
            f"points      {self.points} ({self.training_points:.0f} train); positivity: {self.positivity_points}",
            f"parameters  {self.parameters} per replica",
            f"steps       at most {self.steps}",
            f"memory      {self.memory_bytes / 1e9:.1f} GB predicted peak",
        ]


def parameters(card: Card) -> int:
    """Trained numbers of one replica."""
    widths = (2, *card.model.layers)
    dense = sum((i + 1) * o for i, o in pairwise(widths))
    return dense + (2 * len(FITTED) if card.model.trainable_exponents else 0)


def plan(card: Card) -> Plan:
    """Read the data of a card and tell the sizes; CardError or PackError where the data do not fit the card."""
    inputs = read_inputs(card)
    one = build_problem(card, inputs.selection, card.replicas[:1], inputs.t0_pdf, inputs.law)
    return Plan(
        len(card.replicas), len(one.datasets), len(one.central), float(one.training.sum()),
        sum(rows.stop - rows.start for rows in one.observables.positive),
        parameters(card), card.train.steps, _memory(card, one),
    )  # fmt: skip


def _memory(card: Card, problem: Problem) -> float:
    """Bytes at the peak: TensorFlow itself, tables, and per replica its data, K^-1 matrices and activations."""
    width = np.dtype(card.engine.precision).itemsize
    inverses = 2 * sum(b.u.shape[1] ** 2 for b in whiten(problem.covariance, problem.sets).blocks)
    points = len(problem.central)
    nodes = len(problem.pack.x) + len(quadrature(card.model.sum_rules).x)
    activations = 3 * sum(card.model.layers) * nodes  # forward, backward and one to spare
    replica = (inverses + 5 * points + activations + 8 * parameters(card)) * width + 8 * (inverses + 2 * points)
    tables = problem.observables.entries * (2 * 8 + 2 * width)
    dense = 3 * 8 * points**2  # covariance and its factors in the final evaluation
    return float(BASE_BYTES + tables + dense + len(card.replicas) * replica)
