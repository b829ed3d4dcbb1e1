"""A small problem in memory, and its loop."""

from pathlib import Path

from tests.make_pack import make_card
from tfperf.data.selection import select
from tfperf.models.pdf import PDF
from tfperf.operators.problem import Problem, build_problem
from tfperf.runcard.config import Card
from tfperf.runcard.loader import load_card
from tfperf.train.loop import Loop
from tfperf.train.losses import ReplicaLosses


def make_problem(folder: Path, overrides=(), **card) -> tuple[Card, Problem]:
    loaded = load_card(make_card(folder, **card), list(overrides))
    return loaded, build_problem(loaded, select(loaded), loaded.replicas)


def make_loop(card: Card, problem: Problem) -> Loop:
    model = PDF(card.model, len(problem.ids), card.engine.precision)
    model.initialize(card.seed, problem.ids, [0] * len(problem.ids))
    return Loop(card, model, ReplicaLosses(card, problem))
