"""Replicas whose memory is measured: the steps of a fit, with any number of them together. R replicas."""

import gc
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tfperf.train.cores import Cores
from tfperf.train.ensemble import Ensemble
from tfperf.train.loop import Loop
from tfperf.workloads.pdf.card import Card
from tfperf.workloads.pdf.card_engine import count_threads
from tfperf.workloads.pdf.forms import Candidates, Chi2Form
from tfperf.workloads.pdf.inputs import Inputs, read_inputs
from tfperf.workloads.pdf.operators.problem import Problem, build_problem
from tfperf.workloads.pdf.stack import PDFStack, PDFStackFactory, make_settings
from tfperf.workloads.pdf.training import start_tensorflow

LASTING = 10**9  # steps without a better monitor, after which a replica would stop


class ReplicaMemoryTrial:
    """Steps of an ensemble of so many replicas, which is built anew for each number.

    What the card leaves to measurements is what a fit begins with: the first form, without XLA. Where it leaves stacks
    open there is one, as on a GPU: how many a processor has differs from number to number. No replica stops.
    """

    _inputs: Inputs
    _stack: PDFStack | None = None
    _loop: Loop | None = None
    _ensemble: Ensemble | None = None

    def __init__(self, card: Card) -> None:
        self._card, self._xla = card, card.engine.xla is True
        self._settings = replace(make_settings(card), patience=LASTING)
        stacks = card.engine.stacks
        self._cores = Cores(count_threads(card.engine), 1 if stacks == "auto" else stacks)

    def read_data(self) -> None:
        """On the host."""
        self._inputs = read_inputs(self._card)

    def build_model(self) -> None:
        """The stack of one replica: its network, and what all replicas share."""
        problem = self._build_problem(1)
        start_tensorflow(self._card, self._cores)
        self._stack = PDFStackFactory(self._card, problem).build(np.arange(1), self._make_form(problem))

    def make_slots(self) -> None:
        """Of the one replica, with its best weights and its stopping."""
        assert self._stack is not None
        self._loop = Loop(self._settings, self._stack)

    def list_lengths(self) -> Sequence[int]:
        """None: the points are the same for each replica."""
        return ()

    def set_batch(self, batch: int, length: int | None = None) -> None:
        """An ensemble of so many replicas, numbered from the card's first on; the one before is freed first."""
        self._release()
        problem = self._build_problem(batch)
        factory = PDFStackFactory(self._card, problem)
        form, cores = self._make_form(problem), self._cores
        self._ensemble = Ensemble(self._settings, factory, form, cores.stacks, cores.threads)
        self._ensemble.build_loops()

    def take_steps(self, count: int) -> None:
        """In one call; the validation points' losses are part of each step."""
        assert self._ensemble is not None
        self._ensemble.run(count, self._xla)
        self._ensemble.is_done()  # waits for the device

    def validate(self) -> None:
        """The losses that a fit keeps after each call."""
        assert self._ensemble is not None
        self._ensemble.evaluate(False)

    def _release(self) -> None:
        if self._ensemble is not None:
            self._ensemble.close()
        self._stack = self._loop = self._ensemble = None
        gc.collect()

    def _build_problem(self, replicas: int) -> Problem:
        first, inputs = self._card.replicas[0], self._inputs
        ids = range(first, first + replicas)
        return build_problem(self._card, inputs.selection, ids, inputs.t0_pdf, inputs.law)

    def _make_form(self, problem: Problem) -> Chi2Form:
        return Candidates(self._card, problem).first
