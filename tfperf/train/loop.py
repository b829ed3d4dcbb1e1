"""Many optimizer steps in one compiled call, with stopping, best weights and losses on the device."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfperf.models.pdf import PDF, Nodes
from tfperf.runcard.config import Card
from tfperf.train.losses import Losses, ReplicaLosses, multiplier
from tfperf.train.optimizers import build_optimizer, clip
from tfperf.train.stopping import Stopping

Snapshot = dict[str, NDArray[np.generic]]


def _per_replica(flag: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    return tf.reshape(flag, [-1] + [1] * (len(like.shape) - 1))


class Loop:
    """The training of R replicas. Its variables are everything that decides the future."""

    def __init__(self, card: Card, model: PDF, losses: ReplicaLosses) -> None:
        self.card, self.model, self.losses = card, model, losses
        self.dtype = card.engine.precision
        self.trained: list[keras.Variable] = list(model.trainable_variables)
        self.optimizer = build_optimizer(card.train.optimizer, self.trained)
        patience = card.train.stopping.patience or max(1, card.train.steps // 10)
        self.stopping = Stopping(model.replicas, patience, card.positivity.threshold, self.dtype)
        self.step = tf.Variable(0, dtype=tf.int64, name="step")
        self.kept = [tf.Variable(v.value, trainable=False) for v in self.trained]
        self.validates = tf.constant(losses.points_validation > 0)
        self.per_training = tf.constant(1 / np.maximum(losses.points_training, 1), self.dtype)
        self.per_validation = tf.constant(1 / np.maximum(losses.points_validation, 1), self.dtype)
        self.points = tf.constant(losses.points, self.dtype)
        self._compiled: dict[tuple[str, bool], Callable[..., Any]] = {}

    def variables(self) -> dict[str, tf.Variable]:
        """Every variable by a name that does not change between processes."""
        out: dict[str, tf.Variable] = {"step": self.step}
        out |= {f"model/{k}": v.value for k, v in self.model.named_weights().items()}
        out |= {f"optimizer/{i:02d}": v.value for i, v in enumerate(self.optimizer.variables)}
        out |= {f"stopping/{k}": v for k, v in self.stopping.variables().items()}
        return out | {f"kept/{i:02d}": v for i, v in enumerate(self.kept)}

    def snapshot(self) -> Snapshot:
        """The values of all variables."""
        return {name: variable.numpy() for name, variable in self.variables().items()}

    def restore(self, snapshot: Mapping[str, NDArray[np.generic]]) -> None:
        """Set all variables; ValueError when names or shapes are not those of this loop."""
        variables = self.variables()
        if variables.keys() != snapshot.keys():
            raise ValueError(f"state of another loop: {sorted(variables.keys() ^ snapshot.keys())}")
        for name, variable in variables.items():
            if tuple(variable.shape) != snapshot[name].shape:
                raise ValueError(f"{name}: got {snapshot[name].shape}, wanted {tuple(variable.shape)}")
            variable.assign(snapshot[name])

    def run(self, count: int, xla: bool) -> None:
        """Take `count` steps, or fewer when every replica has stopped."""
        self._function("steps", xla)(tf.constant(count, tf.int64))

    def judge(self, xla: bool) -> None:
        """Let the weights after the last step be the best ones, too; a second call changes nothing."""
        self._function("judge", xla)()

    def _judge(self) -> tf.Tensor:
        losses = self.losses(self.model.at(self.model.prepare(self.losses.x)))
        self._keep_best(losses, self.step.read_value())
        return self.step.read_value()

    def evaluate(self, xla: bool) -> dict[str, NDArray[np.float32]]:
        """Losses of the current weights (R): chi2 per point, positivity penalty; nan for replicas that stopped."""
        rows = self._function("losses", xla)()
        return {name: value.numpy().astype(np.float32) for name, value in rows.items()}

    def _function(self, name: str, xla: bool) -> Callable[..., Any]:
        if (name, xla) not in self._compiled:
            python = {"steps": self._steps, "losses": self._losses, "judge": self._judge}[name]
            self._compiled[name, xla] = tf.function(python, jit_compile=xla, autograph=False)
        return self._compiled[name, xla]

    def _losses(self) -> dict[str, tf.Tensor]:
        pdf = self.model.at(self.model.prepare(self.losses.x))
        losses = self.losses(pdf, weights=False)
        nan = tf.constant(float("nan"), self.dtype)
        rows = {
            "training": losses.training * self.per_training,
            "validation": tf.where(self.validates, losses.validation * self.per_validation, nan),
            "experimental": self.losses.experimental(pdf) / self.points,
            "positivity": losses.positivity,
        }
        running = self.stopping.running()
        return {name: tf.where(running, value, nan) for name, value in rows.items()}

    def done(self) -> bool:
        """True when no step is left to take."""
        return int(self.step) >= self.card.train.steps or not bool(tf.reduce_any(self.stopping.running()))

    def _steps(self, count: tf.Tensor) -> tf.Tensor:
        fixed = None if self.model.card.trainable_exponents else self.model.prepare(self.losses.x)

        def more(i: tf.Tensor) -> tf.Tensor:
            return (i < count) & tf.reduce_any(self.stopping.running())

        def body(i: tf.Tensor) -> tuple[tf.Tensor]:
            self._one_step(fixed)
            return (i + 1,)

        return tf.while_loop(more, body, (tf.constant(0, tf.int64),))[0]

    def _one_step(self, fixed: Nodes | None) -> None:
        """Losses at the current weights decide on best weights and stopping; those who go on are updated."""
        step = self.step.read_value()
        with tf.GradientTape() as tape:
            losses = self.losses(self.model.at(fixed or self.model.prepare(self.losses.x)))
            total = self._objective(losses, step)
        gradients = clip(self.card.train.optimizer, tape.gradient(total, [v.value for v in self.trained]))
        self._keep_best(losses, step)
        self.stopping.stop_impatient(step, losses.positivity)
        self.stopping.quarantine(~tf.math.is_finite(total), step)
        self._update(gradients, step)
        self.step.assign_add(1)

    def _objective(self, losses: Losses, step: tf.Tensor) -> tf.Tensor:
        """What each replica minimises (R)."""
        positivity, integrability, steps = self.card.positivity, self.card.integrability, self.card.train.steps
        total = losses.training
        if self.losses.positive:
            factor = multiplier(positivity.initial, positivity.final, steps, step, self.dtype)
            total += factor * losses.positivity
        if integrability.nodes:
            factor = multiplier(integrability.initial, integrability.final, steps, step, self.dtype)
            total += factor * losses.integrability
        return total

    def monitor(self, losses: Losses) -> tf.Tensor:
        """Validation chi2 per point, of a replica without validation points its training chi2 (R)."""
        validation, training = losses.validation * self.per_validation, losses.training * self.per_training
        return tf.where(self.validates, validation, training)

    def _keep_best(self, losses: Losses, step: tf.Tensor) -> None:
        better = self.stopping.improved(step, self.monitor(losses), losses.positivity)
        for kept, variable in zip(self.kept, self.trained, strict=True):
            kept.assign(tf.where(_per_replica(better, kept), variable.value, kept))

    def _update(self, gradients: list[tf.Tensor], step: tf.Tensor) -> None:
        """One optimizer step for the running replicas; weights and slots of the others stay as they are."""
        stacked = [v.value for v in (*self.trained, *self.optimizer.variables) if len(v.shape) > 1]
        before = [tf.identity(v) for v in stacked]
        self.optimizer.apply(gradients, self.trained)
        finite = [tf.reduce_all(tf.math.is_finite(v), axis=list(range(1, len(v.shape)))) for v in stacked]
        self.stopping.quarantine(~tf.reduce_all(tf.stack(finite), axis=0), step)
        running = self.stopping.running()
        for variable, old in zip(stacked, before, strict=True):
            variable.assign(tf.where(_per_replica(running, old), variable, old))

    def best_weights(self) -> dict[str, NDArray[np.floating]]:
        """Weights by name (R, ...): the best ones, of a replica that has none its last."""
        found = self.stopping.best_step.numpy() >= 0
        kept = {v.path: k.numpy() for v, k in zip(self.trained, self.kept, strict=True)}
        out = {}
        for name, variable in self.model.named_weights().items():
            last = variable.numpy()
            best = kept.get(variable.path, last)
            out[name] = np.where(found.reshape([-1] + [1] * (last.ndim - 1)), best, last)
        return out
