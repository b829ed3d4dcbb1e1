"""A small problem in memory, and its loop."""

from dataclasses import replace
from pathlib import Path
from typing import cast

from tests.make_pack import make_card
from tfperf.results.state import Identity
from tfperf.signals import Signals
from tfperf.train.checkpoint import Checkpoints
from tfperf.train.ensemble import Ensemble
from tfperf.train.loop import Loop
from tfperf.workloads.pdf.card import Card
from tfperf.workloads.pdf.cards import load_card
from tfperf.workloads.pdf.data.selection import select
from tfperf.workloads.pdf.forms import Chi2Form, build_form
from tfperf.workloads.pdf.losses import ReplicaLosses
from tfperf.workloads.pdf.operators.problem import Problem, build_problem
from tfperf.workloads.pdf.stack import PDFStack, PDFStackFactory, make_settings


def make_problem(folder: Path, overrides=(), **card) -> tuple[Card, Problem]:
    loaded = load_card(make_card(folder, **card), list(overrides))
    return loaded, build_problem(loaded, select(loaded), loaded.replicas)


def checkpoints_in(folder: Path) -> Checkpoints:
    """Checkpoints of some run."""
    return Checkpoints(folder, Identity("0" * 32, "0" * 64), "0" * 32)


def make_losses(card: Card, problem: Problem, form: Chi2Form | None = None) -> ReplicaLosses:
    return ReplicaLosses(card, problem, form.build_constants(problem, card.engine.precision) if form else None)


class PDFLoop(Loop):
    """For types alone: a loop whose stack is that of a PDF fit."""

    stack: PDFStack


def make_loop(card: Card, problem: Problem, form: Chi2Form | None = None) -> PDFLoop:
    stack = PDFStack(card, problem, form.build_constants(problem, card.engine.precision) if form else None)
    stack.model.initialize(card.seed, problem.ids, [0] * len(problem.ids))
    return cast(PDFLoop, Loop(make_settings(card), stack))


def make_ensemble(card: Card, problem: Problem, form: Chi2Form | None = None, stacks=1, threads=None) -> Ensemble:
    factory = PDFStackFactory(card, problem)
    return Ensemble(factory.settings, factory, form or Chi2Form(), stacks, threads)


def reduced_to(card: Card, problem: Problem, rank: int) -> Chi2Form:
    """The folded form with that many directions, whatever the tolerance."""
    return replace(build_form(card, problem, "folded"), rank=rank)


def signal_at(ensemble: Ensemble, step: int) -> Signals:
    """A signal that comes with the end of the call at the step."""

    class At(Signals):
        @property
        def received(self):
            return 15 if ensemble.step == step else None

        @received.setter
        def received(self, _):
            pass

    return At()
