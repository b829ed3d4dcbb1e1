"""Many optimizer steps of one stack in one compiled call, with stopping, best weights and losses on the device."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfperf.scopes import phase
from tfperf.train.blueprints import Blueprints, plain
from tfperf.train.flat import Flat
from tfperf.train.optimizers import build_optimizer, clip
from tfperf.train.programs import Program, trace
from tfperf.train.stopping import LARGEST_WEIGHT, Stopping
from tfperf.workloads.pdf.card import Card
from tfperf.workloads.pdf.losses import Losses, ReplicaLosses, multiplier
from tfperf.workloads.pdf.model import PDF, Nodes

Snapshot = dict[str, NDArray[Any]]


def best_weights(state: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.floating]]:
    """Weights by name (R, ...) in a snapshot: the best ones, of a replica that has none its last."""
    found = state["stopping/best_step"] >= 0
    out = {}
    for name in (key.removeprefix("model/") for key in state if key.startswith("model/")):
        last = state[f"model/{name}"]
        best = state.get(f"kept/{name}", last)
        out[name] = np.where(found.reshape([-1] + [1] * (last.ndim - 1)), best, last)
    return out


class Loop:
    """The training of a stack of R replicas. Its variables are everything that decides the future.

    A variable with an axis has the replicas first; one without (step, the optimizer's counters) is common to all.
    """

    def __init__(
        self, card: Card, model: PDF, losses: ReplicaLosses, name: str = "stack", blueprints: Blueprints | None = None
    ) -> None:
        """name: of the programs, which equal stacks share; of letters, digits and underscores.

        blueprints: of stacks of the same name and device.
        """
        self.card, self.model, self.losses, self.name = card, model, losses, name
        self._blueprints = blueprints or Blueprints()
        self.dtype = card.engine.precision
        self.trained: list[keras.Variable] = list(model.trainable_variables)
        self.flat = Flat([tuple(v.shape) for v in self.trained])
        # what a call works on; between calls the weights are the model's
        self.row = keras.Variable(self.flat.join([v.value for v in self.trained]), name="row")
        self.optimizer = build_optimizer(card.train.optimizer, [self.row])
        patience = card.train.stopping.patience or max(1, card.train.steps // 10)
        self.stopping = Stopping(model.replicas, patience, card.positivity.threshold, self.dtype)
        self.step = tf.Variable(0, dtype=tf.int64, name="step")
        names = {id(v): name for name, v in model.named_weights().items()}
        self.names = [names[id(v)] for v in self.trained]
        self.kept = tf.Variable(self.row.value, trainable=False)
        self.validates = tf.constant(losses.points_validation > 0)
        self.per_training = tf.constant(1 / np.maximum(losses.points_training, 1), self.dtype)
        self.per_validation = tf.constant(1 / np.maximum(losses.points_validation, 1), self.dtype)
        self.points = tf.constant(losses.points, self.dtype)
        self._compiled: dict[tuple[str, bool], Program] = {}

    def variables(self) -> dict[str, tf.Variable]:
        """Every variable but the kept weights by a name that does not change between processes."""
        out: dict[str, tf.Variable] = {"step": self.step}
        out |= {f"model/{k}": v.value for k, v in self.model.named_weights().items()}
        out |= {f"optimizer/{i:02d}": v.value for i, v in enumerate(self.optimizer.variables)}
        return out | {f"stopping/{k}": v for k, v in self.stopping.variables().items()}

    def snapshot(self) -> Snapshot:
        """The values of all variables."""
        kept = zip(self.names, self.flat.split(self.kept), strict=True)
        values = {name: variable.numpy() for name, variable in self.variables().items()}
        return values | {f"kept/{name}": part.numpy() for name, part in kept}

    def restore(self, snapshot: Mapping[str, NDArray[Any]]) -> None:
        """Set all variables; ValueError when names or shapes are not those of this loop."""
        variables = self.variables()
        wanted = {name: tuple(v.shape) for name, v in variables.items()}
        wanted |= {f"kept/{name}": shape for name, shape in zip(self.names, self.flat.shapes, strict=True)}
        if wanted.keys() != snapshot.keys():
            raise ValueError(f"state of another loop: {sorted(wanted.keys() ^ snapshot.keys())}")
        for name, shape in wanted.items():
            if shape != snapshot[name].shape:
                raise ValueError(f"{name}: got {snapshot[name].shape}, wanted {shape}")
        for name, variable in variables.items():
            variable.assign(snapshot[name])
        self.kept.assign(self.flat.join([tf.constant(snapshot[f"kept/{name}"]) for name in self.names]))

    def run(self, count: int, xla: bool) -> None:
        """Take `count` steps, or fewer when every replica has stopped."""
        self.function("steps", xla)(tf.constant(count, tf.int64))

    def judge(self, xla: bool) -> None:
        """Let the weights after the last step be the best ones, too; a second call changes nothing."""
        self.function("losses", xla)(tf.constant(True))

    def evaluate(self, xla: bool) -> dict[str, NDArray[np.float32]]:
        """Losses of the current weights (R): chi2 per point, positivity penalty; nan for replicas that stopped."""
        rows = self.function("losses", xla)(tf.constant(False))
        return {name: value.numpy().astype(np.float32) for name, value in rows.items()}

    def function(self, name: str, xla: bool) -> Program:
        """The compiled `steps(count)`, or `losses(judged)`, which lets the weights be the best ones where judged."""
        if (name, xla) not in self._compiled:
            # all that programs can work on
            parts = {key: part for key, part in vars(self).items() if key not in ("card", "_compiled", "_blueprints")}
            key = (self.name, name, xla, plain(self.losses))
            self._compiled[name, xla] = self._blueprints.program(parts, key, lambda: self._trace(name, xla))
        return self._compiled[name, xla]

    def _trace(self, name: str, xla: bool) -> Program:
        functions: dict[str, tuple[Callable[..., Any], tf.DType]] = {
            "steps": (self._steps, tf.int64), "losses": (self._losses, tf.bool),
        }  # fmt: skip
        function, dtype = functions[name]
        return trace(function, [tf.TensorSpec([], dtype)], xla, self.name)

    def _losses(self, judged: tf.Tensor) -> dict[str, tf.Tensor]:
        pdf = self.model.at(self.model.prepare(self.losses.x))
        losses = self.losses(pdf)
        row = self.flat.join([v.value for v in self.trained])
        self._keep_best(losses, self.step.read_value(), row, judged)
        if self.losses.weighted:
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

        self.row.assign(self.flat.join([v.value for v in self.trained]))
        taken = tf.while_loop(more, body, (tf.constant(0, tf.int64),))[0]
        for variable, part in zip(self.trained, self.flat.split(self.row.value), strict=True):
            variable.assign(part)
        return taken

    def _one_step(self, fixed: Nodes | None) -> None:
        """Losses at the current weights decide on best weights and stopping; those who go on are updated."""
        step, row = self.step.read_value(), tf.identity(self.row.value)
        parts = self.flat.split(row)
        with tf.GradientTape() as tape:
            tape.watch(parts)
            with phase("forward"):
                with keras.StatelessScope(state_mapping=list(zip(self.trained, parts, strict=True))):
                    pdf = self.model.at(fixed or self.model.prepare(self.losses.x))
                losses = self.losses(pdf)
                total = self._objective(losses, step)
        with phase("backward"):
            slopes = tape.gradient(total, parts)
        with phase("validation"):
            self._keep_best(losses, step, row)
            self.stopping.stop_impatient(step, losses.positivity)
            self.stopping.quarantine_losses(step, total, losses.training * self.per_training)
        with phase("update"):
            gradients = clip(self.card.train.optimizer, slopes)
            self._update(self.flat.join(gradients), row, step)
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

    def _keep_best(self, losses: Losses, step: tf.Tensor, row: tf.Tensor, judged: tf.Tensor | bool = True) -> None:
        """The weights `row` are the best ones where they are better than those before, if they are judged at all."""
        better = self.stopping.improved(step, self.monitor(losses), losses.positivity, judged)
        self.kept.assign(tf.where(better[:, None], row, self.kept))

    def _update(self, gradient: tf.Tensor, row: tf.Tensor, step: tf.Tensor) -> None:
        """One optimizer step for the running replicas; weights and slots of the others stay as they are."""
        slots = [v.value for v in self.optimizer.variables if len(v.shape) > 1]
        before = [tf.identity(v) for v in slots]
        self.optimizer.apply([gradient], [self.row])
        self._constrain()
        sound = tf.abs(self.row.value) <= LARGEST_WEIGHT  # a NaN is not
        for slot in slots:
            sound &= tf.math.is_finite(slot)
        self.stopping.quarantine(~tf.reduce_all(sound, axis=1), step)
        running = self.stopping.running()[:, None]
        for variable, old in zip([self.row.value, *slots], [row, *before], strict=True):
            variable.assign(tf.where(running, variable, old))

    def _constrain(self) -> None:
        """Bring trained exponents back into their ranges."""
        if any(v.constraint is not None for v in self.trained):
            pairs = zip(self.flat.split(self.row.value), self.trained, strict=True)
            self.row.assign(self.flat.join([p if v.constraint is None else v.constraint(p) for p, v in pairs]))

    def best_weights(self) -> dict[str, NDArray[np.floating]]:
        """Weights by name (R, ...): the best ones, of a replica that has none its last."""
        return best_weights(self.snapshot())

    def close(self) -> None:
        """Let go of the compiled functions, which hold the loop in a cycle: no step can be taken any more."""
        self._compiled.clear()
