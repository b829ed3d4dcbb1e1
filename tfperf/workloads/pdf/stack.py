"""The stack that a fit trains: parton densities and their losses, for some replicas. R replicas."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from tfperf.arrays import ReplicaIndices
from tfperf.data.cache import digest, digest_code
from tfperf.train import choice_cache
from tfperf.train.choices import Choices
from tfperf.train.cores import Cores
from tfperf.train.ensemble import Ensemble
from tfperf.train.settings import Settings
from tfperf.train.stack import Losses, Stack
from tfperf.workloads.pdf.card import Card, Integrability, Positivity
from tfperf.workloads.pdf.forms import LAYOUTS, NAMES, Chi2Form
from tfperf.workloads.pdf.losses import ReplicaLosses, Terms, compute_multiplier
from tfperf.workloads.pdf.model import PDF, GridConstants
from tfperf.workloads.pdf.operators.loss_constants import LossConstants
from tfperf.workloads.pdf.operators.problem import Problem, select_replicas
from tfperf.workloads.pdf.results.record import LOSSES

# keys of `engine` that no measurement depends on
BESIDE = ("cache", "chunk", "check_every", "on_violation", "retire_at")


class PDFStack(Stack):
    """R replicas: chi2 of the training points with growing penalties is minimised, that of the others monitored."""

    alike = ("replica_losses",)  # grid nodes are shared; what the replicas' constants were made of no program reads

    def __init__(self, card: Card, problem: Problem, loss_constants: LossConstants | None = None) -> None:
        """`loss_constants`: the form of the losses, by default every point on its own."""
        self.replicas, self.precision = len(problem.ids), card.engine.precision
        self.model = PDF(card.model, self.replicas, self.precision)
        self.replica_losses = losses = ReplicaLosses(card, problem, loss_constants)
        self.penalties: dict[str, Positivity | Integrability] = {
            "positivity": card.positivity, "integrability": card.integrability,
        }  # fmt: skip
        self.threshold, self.steps = card.positivity.threshold, card.train.steps
        self.has_validation = tf.constant(losses.points_validation > 0)
        self.per_training = tf.constant(1 / np.maximum(losses.points_training, 1), self.precision)
        self.per_validation = tf.constant(1 / np.maximum(losses.points_validation, 1), self.precision)
        self.points = tf.constant(losses.points, self.precision)

    def list_weights(self) -> dict[str, keras.Variable]:
        """Of the model."""
        return self.model.list_weights()

    def prepare(self) -> GridConstants | None:
        """The constant part of the grid; None where exponents are trained."""
        return None if self.model.options.trainable_exponents else self._prepare_grid()

    def _prepare_grid(self) -> GridConstants:
        return self.model.prepare(self.replica_losses.x)

    def evaluate_terms(self) -> Terms:
        """All terms of the objective at the weights as they are."""
        return self.replica_losses(self.model.evaluate_at(self._prepare_grid()))

    def evaluate_losses(self, step: tf.Tensor, prepared: GridConstants | None) -> Losses:
        """Of the weights as they are, before step `step`."""
        return self._compute_losses(self.replica_losses(self.model.evaluate_at(prepared or self._prepare_grid())), step)

    def evaluate_metrics(self, step: tf.Tensor) -> tuple[Losses, Mapping[str, tf.Tensor]]:
        """The losses, and those per point without the sets' weights."""
        pdf = self.model.evaluate_at(self._prepare_grid())
        terms = self.replica_losses(pdf)
        losses = self._compute_losses(terms, step)
        if self.replica_losses.weighted:
            terms = self.replica_losses(pdf, weights=False)
        nan = tf.constant(float("nan"), self.precision)
        return losses, {
            "training": terms.training * self.per_training,
            "validation": tf.where(self.has_validation, terms.validation * self.per_validation, nan),
            "experimental": self.replica_losses.compute_experimental_chi2(pdf) / self.points,
            "positivity": terms.positivity,
        }

    def _compute_losses(self, terms: Terms, step: tf.Tensor) -> Losses:
        """The monitor of a replica without validation points is its training terms."""
        training, validation = terms.training * self.per_training, terms.validation * self.per_validation
        monitor = tf.where(self.has_validation, validation, training)
        return Losses(self._compute_objective(terms, step), monitor, terms.positivity < self.threshold, training)

    def _compute_objective(self, terms: Terms, step: tf.Tensor) -> tf.Tensor:
        total = terms.training
        present = {"positivity": self.replica_losses.positive, "integrability": self.replica_losses.integrable_nodes}
        for name, penalty in self.penalties.items():
            if present[name]:
                factor = compute_multiplier(penalty.initial, penalty.final, self.steps, step, self.precision)
                total += factor * getattr(terms, name)
        return total


class PDFStackFactory:
    """Makes the stacks of a fit's replicas."""

    metrics: Sequence[str] = LOSSES
    progress_metric = "experimental"

    def __init__(self, card: Card, problem: Problem, attempts: Sequence[int] | None = None) -> None:
        """attempts: of each replica, how often its training was begun before; by default never."""
        self.card, self.problem, self.attempts = card, problem, attempts or [0] * len(problem.ids)

    @property
    def replicas(self) -> int:
        """How many there are."""
        return len(self.problem.ids)

    def build(self, indices: ReplicaIndices, form: Chi2Form) -> PDFStack:
        """The stack of those replicas."""
        problem = self.problem if len(indices) == self.replicas else select_replicas(self.problem, indices)
        constants = form.build_constants(problem, self.card.engine.precision)
        problem = replace(problem, observables=form.arrange(problem.observables))
        return PDFStack(self.card, problem, constants)

    def initialize(self, stack: PDFStack, indices: ReplicaIndices) -> None:
        """From each replica's own streams."""
        ids, attempts = zip(*((self.problem.ids[r], self.attempts[r]) for r in indices), strict=True)
        stack.model.initialize(self.card.seed, ids, attempts)

    def digest(self, form: Chi2Form) -> str:
        """The same for all trainings that compute the same with a form."""
        card, problem = self.card, self.problem
        return digest(
            card.model, card.train, card.positivity, card.integrability, card.engine.precision, problem.tables_digest,
            problem.covariance, problem.root_weight, form.directions,
        )  # fmt: skip

    @cached_property
    def settings(self) -> Settings:
        """What the card says of the training."""
        return make_settings(self.card)

    def find_choices_path(self, cores: Cores | None) -> Path | None:
        """The file for the choices of this training; None: nothing is kept. cores: None where they are chosen, too."""
        card, problem = self.card, self.problem
        engine = {key: value for key, value in asdict(card.engine).items() if key not in BESIDE}
        key = problem.tables_digest and digest(
            digest_code(__name__), problem.tables_digest, problem.covariance, problem.root_weight, len(problem.ids),
            problem.training.shape, engine, card.model, card.positivity, card.integrability, card.train,
        )  # fmt: skip
        return choice_cache.find_path(card.engine.cache, key, cores)

    def read_choices(self, cores: Cores | None) -> Choices | None:
        """The choices of an earlier run; None where there are none, or the card wants them made anew."""
        return choice_cache.read(self.settings, self.find_choices_path(cores), NAMES, LAYOUTS)


def build_ensemble(card: Card, problem: Problem, form: Chi2Form, cores: Cores) -> Ensemble:
    """All replicas of a problem, at their first attempt."""
    factory = PDFStackFactory(card, problem)
    return Ensemble(factory.settings, factory, form, cores.stacks, cores.threads)


def make_settings(card: Card) -> Settings:
    """What a card says of the training, in the engine's words."""
    train, engine = card.train, card.engine
    return Settings(
        steps=train.steps, optimizer=train.optimizer, patience=train.stopping.patience or max(1, train.steps // 10),
        precision=engine.precision,
        steps_per_call=train.steps_per_call, checkpoint_every=train.checkpoint_every, xla=engine.xla,
        devices=engine.devices, cache=engine.cache,
    )  # fmt: skip
