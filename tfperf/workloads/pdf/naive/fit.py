"""Replicas as separate Keras models inside one, trained by `fit` with one step an epoch, watched by callbacks.

R replicas, X grid nodes below x = 1, Q quadrature nodes, N points.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfperf.arrays import BoolMask, FloatArray, ReplicaWeights
from tfperf.errors import CardError
from tfperf.runcard.optimizers import CLIPPINGS
from tfperf.scopes import phase
from tfperf.workloads.pdf.card import Card, Optimizer
from tfperf.workloads.pdf.layers.quadrature import make_quadrature
from tfperf.workloads.pdf.model import PDF
from tfperf.workloads.pdf.naive.observables import Chi2, NaiveIntegrability, NaivePositivity, Objective, Predictions
from tfperf.workloads.pdf.naive.replica import build_replica
from tfperf.workloads.pdf.operators.problem import Problem


def build_optimizer(options: Optimizer, replicas: int) -> keras.optimizers.Optimizer:
    """The card's optimizer as Keras has it; CardError for what one `fit` of many replicas cannot do."""
    if options.global_clipnorm is not None and replicas > 1:
        raise CardError(
            f"train.optimizer.global_clipnorm: got {options.global_clipnorm:g}, but Keras takes that norm over all "
            "replicas of a model; allowed in the naive form: clipnorm, clipvalue, none"
        )
    if options.use_ema:
        why = "but Keras' `fit` ends with the average in the weights; allowed in the naive form: false"
        raise CardError(f"train.optimizer.use_ema: got true, {why}")
    clipping = {c: getattr(options, c) for c in CLIPPINGS}
    kind: type[keras.optimizers.Optimizer] = getattr(keras.optimizers, options.name)
    return kind(**options.make_arguments(), **clipping)


def make_initial_weights(card: Card, problem: Problem) -> ReplicaWeights:
    """The networks as every form of a fit begins with them."""
    model = PDF(card.model, len(problem.ids), card.engine.precision)
    model.initialize(card.seed, problem.ids, [0] * len(problem.ids))
    return {name: variable.numpy() for name, variable in model.list_weights().items()}


class NaiveTraining:
    """The training of R replicas together. One that has stopped trains on, but keeps its best weights.

    Per replica (R): running, best (validation chi2 per point), best_step (-1: none), stop_step.
    """

    def __init__(self, card: Card, problem: Problem, weights: ReplicaWeights) -> None:
        """`weights`: where to start, (R, ...) by the names of `PDF.list_weights`; CardError as `build_optimizer`."""
        self.card, self.problem, self.step = card, problem, 0
        self._build()
        self.shapes = {name: array.shape[1:] for name, array in weights.items()}
        for r, network in enumerate(self.networks):
            for name, variable in self._get_variables(network).items():
                variable.assign(weights[name][r].reshape(variable.shape))
        count = len(problem.ids)
        self.patience = card.train.stopping.patience or max(1, card.train.steps // 10)
        self.running, self.best = np.ones(count, bool), np.full(count, np.inf)
        self.best_step, self.stop_step = np.full(count, -1), np.zeros(count, int)
        self.kept: list[ReplicaWeights | None] = [None] * count

    def _build(self) -> None:
        """Three models of the same networks: what trains, what is watched at each step, and every loss."""
        card, problem, dtype, count = self.card, self.problem, self.card.engine.precision, len(self.problem.ids)
        optimizer = build_optimizer(card.train.optimizer, count)
        inside, rule = problem.pack.x < 1, make_quadrature(card.model.sum_rules)  # x f(1) = 0: that node adds nothing
        self.networks = [build_replica(card.model, rule, f"replica_{i}", dtype) for i in problem.ids]
        self.x = [tf.constant(nodes[None, :, None], dtype) for nodes in (problem.pack.x[inside], rule.x)]
        x = [keras.Input(batch_shape=nodes.shape, dtype=dtype) for nodes in self.x]
        pdf = keras.ops.concatenate([network(x) for network in self.networks], axis=0)
        predictions = keras.ops.unstack(Predictions(problem.datasets, inside, dtype)(pdf), count)
        divided = problem.datasets if card.positivity.denominators else ()
        positivity = NaivePositivity(problem.pack.positivity, divided, problem.pack.x, inside, dtype)(pdf)
        integrability = NaiveIntegrability(card.integrability.nodes, dtype)(pdf)
        training, validation = (self._build_chi2(predictions, m) for m in (problem.training, ~problem.training))
        # of a replica without validation points the training points are watched
        validates = ~np.all(problem.training, axis=1)
        watched = [v if some else t for some, t, v in zip(validates, training, validation, strict=True)]
        self.points_watched = np.where(validates, (~problem.training).sum(axis=1), problem.training.sum(axis=1))

        training, validation, watched = (keras.ops.concatenate(c) for c in (training, validation, watched))
        self.objective = Objective(dtype)
        self.training = keras.Model(x, keras.ops.split(self.objective(training, positivity, integrability), count))
        self.watched = keras.Model(x, [watched, positivity])
        self.every_loss = keras.Model(x, [training, validation, positivity, integrability])
        # the loss of an output (1) is the output itself; Keras adds them up
        self.training.compile(optimizer, [lambda _, y: y] * count, jit_compile=False)

    def _build_chi2(self, predictions: list[tf.Tensor], masks: BoolMask) -> list[tf.Tensor]:
        """Of each replica's points under its mask: predictions R times (N), masks (R, N) -> R times (1)."""
        problem, covariance = self.problem, self.problem.covariance.to_dense()
        return [
            Chi2(data, mask, covariance, problem.root_weight, self.card.engine.precision)(y)
            for y, data, mask in zip(predictions, problem.data, masks, strict=True)
        ]

    def _get_variables(self, network: keras.Model) -> dict[str, keras.Variable]:
        """A replica's variables by the names of `PDF.list_weights`."""
        parts = (name.split("/") for name in self.shapes)
        return {f"{layer}/{weight}": getattr(network.get_layer(layer), weight) for layer, weight in parts}

    def run(self, steps: int, *callbacks: keras.callbacks.Callback) -> None:
        """Take `steps` steps, one an epoch, or fewer when every replica has stopped; with more callbacks of Keras'."""
        targets = tuple(tf.zeros(1) for _ in self.networks)
        data = tf.data.Dataset.from_tensors((tuple(self.x), targets)).repeat()
        hooks = (self._raise_multipliers, self._watch)
        every = [*(keras.callbacks.LambdaCallback(on_epoch_begin=hook) for hook in hooks), *callbacks]
        if self.running.any():
            self.training.fit(data, epochs=steps, steps_per_epoch=1, shuffle=False, verbose=0, callbacks=every)

    def _raise_multipliers(self, epoch: int, logs: Any = None) -> None:
        done = self.step / max(self.card.train.steps - 1, 1)
        for name in ("positivity", "integrability"):
            card = getattr(self.card, name)
            getattr(self.objective, name).assign(card.initial * (card.final / card.initial) ** done)

    def _watch(self, epoch: int, logs: Any = None) -> None:
        """Before a step: its weights may be a replica's best, or the time to stop."""
        positivity = self.keep_best()
        waited = (self.best_step >= 0) & (self.step - self.best_step >= self.patience)
        stops = self.running & waited & (positivity < self.card.positivity.threshold)
        self.stop_step[stops], self.running[stops] = self.step, False
        self.training.stop_training = not self.running.any()
        self.step += 1

    def keep_best(self) -> FloatArray:
        """Keep the current weights of each replica whose best they are; returns the positivity penalties (R)."""
        with phase("validation"):
            chi2, positivity = self.watched.predict_on_batch(self.x)
        monitor = chi2 / self.points_watched
        better = self.running & (monitor < self.best) & (positivity < self.card.positivity.threshold)
        for r in map(int, np.flatnonzero(better)):
            self.best[r], self.best_step[r] = monitor[r], self.step
            self.kept[r] = self._get_weights(r)
        return np.asarray(positivity)

    def evaluate_losses(self) -> dict[str, FloatArray]:
        """Chi2 summed over points, and penalties without multiplier, of the current weights (R)."""
        names = ("training", "validation", "positivity", "integrability")
        return dict(zip(names, self.every_loss.predict_on_batch(self.x), strict=True))

    def _get_weights(self, r: int) -> ReplicaWeights:
        variables = self._get_variables(self.networks[r])
        return {name: variables[name].numpy().reshape(shape) for name, shape in self.shapes.items()}

    def get_weights(self) -> ReplicaWeights:
        """The current weights (R, ...) by the names of `PDF.list_weights`."""
        rows = [self._get_weights(r) for r in range(len(self.networks))]
        return {name: np.stack([row[name] for row in rows]) for name in self.shapes}

    def get_best_weights(self) -> ReplicaWeights:
        """The best weights of each replica, of one that has none the current ones."""
        rows = [kept or self._get_weights(r) for r, kept in enumerate(self.kept)]
        return {name: np.stack([row[name] for row in rows]) for name in self.shapes}
