"""Many optimizer steps of one stack in one compiled call, with stopping, best weights and losses on the device."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from tfperf.arrays import ArraysByName, Float32Array, Int64Array, ReplicaWeights, Snapshot
from tfperf.scopes import phase
from tfperf.train.blueprints import Blueprints, list_constants
from tfperf.train.contract import check_assigned, check_gradients, check_losses, check_metrics, check_variables
from tfperf.train.flat import Flattener
from tfperf.train.optimizers import build_optimizer, clip
from tfperf.train.programs import Program, trace
from tfperf.train.settings import Settings
from tfperf.train.stack import Losses, Stack
from tfperf.train.stopping import LARGEST_WEIGHT, EarlyStopping


def select_best_weights(state: ArraysByName) -> ReplicaWeights:
    """Weights by name (R, ...) in a snapshot: the best ones, of a replica that has none its last."""
    found = state["stopping/best_step"] >= 0
    out = {}
    for name in (key.removeprefix("model/") for key in state if key.startswith("model/")):
        last = state[f"model/{name}"]
        best = state.get(f"kept/{name}", last)
        out[name] = np.where(found.reshape([-1] + [1] * (last.ndim - 1)), best, last)
    return out


def _expand_axes(which: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """(R) with as many axes as (R, ...)."""
    return tf.reshape(which, [-1] + [1] * (len(values.shape) - 1))


@dataclass(frozen=True)
class EpochRows:
    """What the history keeps of the epochs that ended after step `before`, up to `step`."""

    before: int
    step: int
    epoch: int  # steps; 0: there are none
    metrics: Mapping[str, Float32Array] = field(default_factory=dict)  # (R, n) each; nan once a replica had stopped

    @property
    def ends(self) -> range:
        """The steps at which they ended."""
        every = self.epoch
        return range((self.before // every + 1) * every, self.step + 1, every) if every else range(0)

    def fill(self, metrics: Mapping[str, Float32Array], stop_steps: Int64Array) -> "EpochRows":
        """The same with metrics; stop_steps: after which a replica has none (R)."""
        late = np.array(self.ends) > stop_steps[:, None]
        return replace(self, metrics={name: np.where(late, np.float32(np.nan), v) for name, v in metrics.items()})


class Loop:
    """The training of a stack of R replicas. Its variables are everything that decides the future.

    A variable with an axis has the replicas first; one without (step, the optimizer's counters) is common to all.
    """

    shares_others: ClassVar[bool] = False  # whether what a program uses beside the loop's own is that of all such loops

    def __init__(
        self, settings: Settings, stack: Stack, name: str = "stack", blueprints: Blueprints | None = None
    ) -> None:
        """name: of the programs, which equal stacks share; of letters, digits and underscores.

        blueprints: of stacks of the same name and device.
        """
        self.settings, self.stack, self.name = settings, stack, name
        self._blueprints = blueprints or Blueprints()
        self.stopping = EarlyStopping(stack.replicas, settings.patience, stack.precision)
        self.step = tf.Variable(0, dtype=tf.int64, name="step")
        self._make_variables()
        self._compiled: dict[tuple[str, bool], Program] = {}
        self._rows: list[EpochRows] = []  # of the history, that nobody has taken yet

    def _make_variables(self) -> None:
        stack = self.stack
        check_variables(stack)
        weights = stack.list_weights()
        self.names = [name for name, v in weights.items() if v.trainable]
        self.trained: list[keras.Variable] = [weights[name] for name in self.names]
        self.flat = Flattener([tuple(v.shape) for v in self.trained], [tf.as_dtype(v.dtype).name for v in self.trained])
        # what a call of the engine's steps works on; between calls the weights are the stack's
        self.flat_weights = keras.Variable(self.flat.join([v.value for v in self.trained]), name="row")
        self.optimizer = None if stack.has_own_step else self._build_optimizer()
        self.kept = tf.Variable(self.flat_weights.value, trainable=False)
        # of weights that no gradient changes, but a step of the stack's own may, or what its losses assign
        may_change = stack.has_own_step or stack.epoch
        others = {name: v for name, v in weights.items() if not v.trainable and may_change}
        self.others = {name: v.value for name, v in others.items()}
        self.kept_others = {name: tf.Variable(v, trainable=False) for name, v in self.others.items()}

    def _build_optimizer(self) -> keras.optimizers.Optimizer:
        """The stack's own, else the settings'."""
        own = self.stack.build_optimizer(self.flat_weights, self.flat)
        if own is not None:
            return own
        assert self.settings.optimizer is not None
        return build_optimizer(self.settings.optimizer, [self.flat_weights])

    def list_variables(self) -> dict[str, tf.Variable]:
        """Every variable but the kept weights by a name that does not change between processes."""
        out: dict[str, tf.Variable] = {"step": self.step}
        out |= {f"model/{k}": v.value for k, v in self.stack.list_weights().items()}
        if self.optimizer is not None:
            out |= {f"optimizer/{i:02d}": v.value for i, v in enumerate(self.optimizer.variables)}
        out |= {f"state/{k}": v for k, v in self.stack.list_state().items()}
        return out | {f"stopping/{k}": v for k, v in self.stopping.list_variables().items()}

    def snapshot(self) -> Snapshot:
        """The values of all variables."""
        kept = zip(self.names, self.flat.split(self.kept), strict=True)
        values = {name: variable.numpy() for name, variable in self.list_variables().items()}
        values |= {f"kept/{name}": value.numpy() for name, value in self.kept_others.items()}
        return values | {f"kept/{name}": value.numpy() for name, value in kept}

    def restore(self, snapshot: ArraysByName) -> None:
        """Set all variables; ValueError when names or shapes are not those of this loop."""
        variables = self.list_variables() | {f"kept/{name}": v for name, v in self.kept_others.items()}
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
        self._rows.clear()

    def run(self, count: int, xla: bool) -> None:
        """Take `count` steps, or fewer when every replica has stopped."""
        program, end = self.get_program("steps", xla), int(self.step) + count
        while True:
            before = int(self.step)
            asked = self.stack.feed(before, end - before)
            program(tf.constant(asked, tf.int64))
            now = int(self.step)
            if (rows := EpochRows(before, now, self.stack.epoch)).ends:
                self._rows.append(rows.fill(self.stack.read_rows(before, now), self.stopping.read_stop_steps()))
            if now >= end or now < before + asked:
                return

    def take_rows(self) -> list[EpochRows]:
        """What the history keeps of the epochs that have ended since this was last asked for."""
        rows, self._rows = self._rows, []
        return rows

    def keep_best(self, xla: bool) -> None:
        """Let the weights after the last step be the best ones, too; a second call changes nothing.

        A stack that has epochs has validated them.
        """
        if not self.stack.epoch:
            self.get_program("losses", xla)(tf.constant(True))

    def evaluate(self, xla: bool) -> dict[str, Float32Array]:
        """What the history keeps of the current weights (R); nan for replicas that stopped."""
        metrics = self.get_program("losses", xla)(tf.constant(False))
        return {name: value.numpy().astype(np.float32) for name, value in metrics.items()}

    def get_program(self, name: str, xla: bool) -> Program:
        """The compiled `steps(count)`, or `losses(eligible)`: its weights can be the best ones where eligible."""
        if (name, xla) not in self._compiled:
            # all that programs can work on
            excluded = ("settings", "_compiled", "_blueprints")
            held = {key: held for key, held in vars(self).items() if key not in excluded}
            key = (self.name, name, xla, list_constants(self.stack, self.stack.alike))
            self._compiled[name, xla] = self._blueprints.get_program(
                held, key, lambda: self._trace(name, xla), self.shares_others
            )
        return self._compiled[name, xla]

    def _trace(self, name: str, xla: bool) -> Program:
        own = [self.flat_weights.value, self.kept, *self.kept_others.values(), *self.list_variables().values()]
        own += self.stack.list_buffers()
        return self._trace_program(name, xla, partial(check_assigned, self.stack, own))

    def _trace_program(self, name: str, xla: bool, check: Callable[[Any], None]) -> Program:
        functions: dict[str, tuple[Callable[..., Any], tf.DType]] = {
            "steps": (self._take_steps, tf.int64), "losses": (self._evaluate_losses, tf.bool),
        }  # fmt: skip
        function, dtype = functions[name]
        return trace(function, [tf.TensorSpec([], dtype)], xla, self.name, check)

    def _evaluate_losses(self, eligible: tf.Tensor) -> dict[str, tf.Tensor]:
        step = self.step.read_value()
        losses, metrics = self.stack.evaluate_metrics(step)
        check_losses(self.stack, losses, "evaluate_metrics")
        check_metrics(self.stack, metrics)
        self._keep_best(losses, step, self._join_weights(), [*self.others.values()], eligible)
        nan, running = tf.constant(float("nan"), self.stack.precision), self.stopping.is_running()
        return {name: tf.where(running, value, nan) for name, value in metrics.items()}

    def is_done(self) -> bool:
        """True when no step is left to take."""
        return int(self.step) >= self.settings.steps or not bool(tf.reduce_any(self.stopping.is_running()))

    def trace_step(self) -> Any:
        """A call of a single step, without a loop around it, as a concrete function that nothing compiles."""
        return tf.function(self.take_single_step, autograph=False).get_concrete_function()

    def take_single_step(self) -> None:
        """What a call does that takes one step, whether replicas are left or not."""
        prepared = self.stack.prepare()
        self._begin_call()
        self._take_step(prepared)
        self._end_call()

    def _take_steps(self, count: tf.Tensor) -> tf.Tensor:
        prepared, start = self.stack.prepare(), self.step.read_value()
        self._begin_call()
        take = self._take_epochs if self.stack.epoch else self._take_until
        end = take(start, start + count, prepared)
        self._end_call()
        return end - start

    def _begin_call(self) -> None:
        self.flat_weights.assign(self._join_weights())

    def _take_until(self, start: tf.Tensor, end: tf.Tensor, prepared: Any) -> tf.Tensor:
        """Steps from number `start` on; the number that was come to when all replicas had stopped, else `end`."""

        def body(i: tf.Tensor) -> tuple[tf.Tensor]:
            self._take_step(prepared)
            return (i + 1,)

        return tf.while_loop(partial(self._has_more, end), body, (start,))[0]

    def _has_more(self, end: tf.Tensor, i: tf.Tensor) -> tf.Tensor:
        return (i < end) & tf.reduce_any(self.stopping.is_running())

    def _take_epochs(self, start: tf.Tensor, end: tf.Tensor, prepared: Any) -> tf.Tensor:
        """The same, with a validation after each epoch."""
        epoch = self.stack.epoch

        def body(i: tf.Tensor) -> tuple[tf.Tensor]:
            epoch_end = (i // epoch + 1) * epoch
            now = self._take_until(i, tf.minimum(end, epoch_end), prepared)
            tf.cond(tf.equal(now, epoch_end), self._validate, lambda: tf.constant(False))
            return (now,)

        return tf.while_loop(partial(self._has_more, end), body, (start,))[0]

    def _validate(self) -> tf.Tensor:
        """After an epoch: who has its best weights now, who has to stop."""
        step = self.step.read_value()
        with phase("validation"):
            weights = self._join_weights() if self.stack.has_own_step else self.flat_weights.value
            with self._use_weights(self.flat.split(weights)):
                losses = self.stack.validate(step)
            check_losses(self.stack, losses, "validate")
            self._keep_best(losses, step, weights, [*self.others.values()])
            self.stopping.stop_impatient(step, losses.gate)
            self.stopping.quarantine_losses(step, losses.objective, losses.misfit)
        return tf.constant(True)

    def _take_step(self, prepared: Any) -> None:
        take = self._take_stack_step if self.stack.has_own_step else self._take_engine_step
        take(self.step.read_value(), prepared)
        self.step.assign_add(1)

    def _end_call(self) -> None:
        """Give the stack the weights that the engine's steps have worked on."""
        if not self.stack.has_own_step:
            for variable, value in zip(self.trained, self.flat.split(self.flat_weights.value), strict=True):
                variable.assign(value)

    def _take_engine_step(self, step: tf.Tensor, prepared: Any) -> None:
        """Losses at the current weights decide on best weights and stopping; those who go on are updated."""
        weights = tf.identity(self.flat_weights.value)
        variables = self.flat.split(weights)
        with tf.GradientTape() as tape:
            tape.watch(variables)
            with phase("forward"), self._use_weights(variables) as scope:
                losses = self.stack.evaluate_losses(step, prepared)
        assigned = self._find_assigned(scope)
        check_losses(self.stack, losses, "evaluate_losses")
        with phase("backward"):
            gradients = tape.gradient(losses.objective, variables)
        check_gradients(self.stack, self.names, gradients)
        self._decide(losses, step, weights, [])
        with phase("update"):
            if self.settings.optimizer is not None:  # a stack's own optimizer clips
                gradients = clip(self.settings.optimizer, gradients)
            self._update(self.flat.join(gradients), weights, step, assigned)

    def _take_stack_step(self, step: tf.Tensor, prepared: Any) -> None:
        """The stack's own step; what it did to replicas that do not go on is undone."""
        changed = [*(v.value for v in self.stack.list_weights().values()), *self.stack.list_state().values()]
        changed = [v for v in changed if len(v.shape)]
        before, weights = [tf.identity(v) for v in changed], self._join_weights()
        others = [tf.identity(v) for v in self.others.values()]
        losses = self.stack.take_step(step, prepared)
        check_losses(self.stack, losses, "take_step")
        self._decide(losses, step, weights, others)
        with phase("update"):
            sound = tf.reduce_all(tf.abs(self._join_weights()) <= LARGEST_WEIGHT, axis=1)
            for v in (v for v in changed if v.dtype.is_floating):
                sound &= tf.reduce_all(tf.math.is_finite(tf.reshape(v, [v.shape[0], -1])), axis=1)
            self._settle(sound, changed, before, step)

    def _join_weights(self) -> tf.Tensor:
        """Trained weights as the stack has them now (R, P)."""
        return self.flat.join([v.value for v in self.trained])

    def _use_weights(self, values: Sequence[tf.Tensor]) -> Any:
        """Let these stand in for the trained weights; what else is assigned within is for `_find_assigned`."""
        if self.stack.has_own_step:
            return nullcontext()
        return keras.StatelessScope(state_mapping=list(zip(self.trained, values, strict=True)))

    def _find_assigned(self, scope: keras.StatelessScope) -> list[tuple[tf.Variable, tf.Tensor]]:
        """Of weights that no gradient changes: the values that the losses have assigned (R, ...)."""
        found = [(v.value, scope.get_current_value(v)) for v in self.stack.list_weights().values() if not v.trainable]
        return [(variable, value) for variable, value in found if value is not None]

    def _decide(self, losses: Losses, step: tf.Tensor, weights: tf.Tensor, others: Sequence[tf.Tensor]) -> None:
        """Who has its best weights now, who has to stop; weights, others: those that the losses of a step are of."""
        with phase("validation"):
            if not self.stack.epoch:
                self._keep_best(losses, step, weights, others)
                self.stopping.stop_impatient(step, losses.gate)
            self.stopping.quarantine_losses(step, losses.objective, losses.misfit)

    def _keep_best(
        self, losses: Losses, step: tf.Tensor, weights: tf.Tensor, others: Sequence[tf.Tensor],
        eligible: tf.Tensor | bool = True,
    ) -> None:  # fmt: skip
        """These weights are the best ones where they are better than those before, and eligible."""
        better = self.stopping.record_best(step, losses.monitor, losses.gate, eligible)
        self.kept.assign(tf.where(better[:, None], weights, self.kept))
        for kept, now in zip(self.kept_others.values(), others, strict=False):
            kept.assign(tf.where(_expand_axes(better, now), now, kept))

    def _update(
        self, gradient: tf.Tensor, weights: tf.Tensor, step: tf.Tensor,
        assigned: Sequence[tuple[tf.Variable, tf.Tensor]],
    ) -> None:  # fmt: skip
        """One optimizer step; assigned: other weights, and what they become."""
        assert self.optimizer is not None
        slots = [v.value for v in self.optimizer.variables if len(v.shape) > 1]
        before = [tf.identity(v) for v in slots]
        self.optimizer.apply([gradient], [self.flat_weights])
        self._constrain()
        sound = tf.abs(self.flat_weights.value) <= LARGEST_WEIGHT  # a NaN is not
        for slot in slots:
            sound &= tf.math.is_finite(slot)
        self._settle(tf.reduce_all(sound, axis=1), [self.flat_weights.value, *slots], [weights, *before], step)
        running = self.stopping.is_running()
        for variable, value in assigned:
            variable.assign(tf.where(_expand_axes(running, value), value, variable))

    def _settle(
        self, sound: tf.Tensor, changed: Sequence[tf.Variable], before: Sequence[tf.Tensor], step: tf.Tensor
    ) -> None:
        """Quarantine replicas that are not sound (R); variables of those that do not run are as they were before."""
        self.stopping.quarantine(~sound, step)
        running = self.stopping.is_running()
        for variable, old in zip(changed, before, strict=True):
            variable.assign(tf.where(_expand_axes(running, old), variable, old))

    def _constrain(self) -> None:
        """Bring weights back to where their constraints allow them."""
        if any(v.constraint is not None for v in self.trained):
            pairs = zip(self.flat.split(self.flat_weights.value), self.trained, strict=True)
            self.flat_weights.assign(self.flat.join([p if v.constraint is None else v.constraint(p) for p, v in pairs]))

    def get_best_weights(self) -> ReplicaWeights:
        """Weights by name (R, ...): the best ones, of a replica that has none its last."""
        return select_best_weights(self.snapshot())

    def close(self) -> None:
        """Let go of the compiled functions, which hold the loop in a cycle: no step can be taken any more."""
        self._compiled.clear()
