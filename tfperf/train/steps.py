"""What is traced of the training of a stack: its steps, with stopping and best weights on the device."""

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import keras
import tensorflow as tf

from tfperf.scopes import phase
from tfperf.train.contract import check_gradients, check_losses, check_metrics
from tfperf.train.flat import Flattener
from tfperf.train.optimizers import clip
from tfperf.train.settings import Settings
from tfperf.train.stack import Losses, Stack
from tfperf.train.stopping import LARGEST_WEIGHT, EarlyStopping


def _expand_axes(which: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """(R) with as many axes as (R, ...)."""
    return tf.reshape(which, [-1] + [1] * (len(values.shape) - 1))


class TracedSteps:
    """Steps of R replicas, on variables that whoever traces them has made."""

    settings: Settings
    stack: Stack
    stopping: EarlyStopping
    step: tf.Variable
    names: list[str]  # of the trained weights
    trained: list[keras.Variable]
    flat: Flattener
    flat_weights: keras.Variable  # (R, P): what steps work on; between calls the weights are the stack's
    kept: tf.Variable  # (R, P): the best ones
    others: dict[str, tf.Variable]  # weights that no gradient changes
    kept_others: dict[str, tf.Variable]
    optimizer: keras.optimizers.Optimizer | None

    def _evaluate_losses(self, eligible: tf.Tensor) -> dict[str, tf.Tensor]:
        step = self.step.read_value()
        losses, metrics = self.stack.evaluate_metrics(step)
        check_losses(self.stack, losses, "evaluate_metrics")
        check_metrics(self.stack, metrics)
        self._keep_best(losses, step, self._join_weights(), [*self.others.values()], eligible)
        nan, running = tf.constant(float("nan"), self.stack.precision), self.stopping.is_running()
        return {name: tf.where(running, value, nan) for name, value in metrics.items()}

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
        probes = [*self.stack.make_probes()]
        with tf.GradientTape() as tape:
            tape.watch([*variables, *probes])
            with phase("forward"), self._use_weights(variables) as scope:
                losses = self.stack.evaluate_losses(step, prepared)
        assigned = self._find_assigned(scope)
        check_losses(self.stack, losses, "evaluate_losses")
        with phase("backward"):
            gradients = tape.gradient(losses.objective, [*variables, *probes])
        if probes:
            assert self.optimizer is not None
            gradients, self.optimizer.probed = gradients[: len(variables)], gradients[len(variables) :]
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
