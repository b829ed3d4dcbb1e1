"""A replica alone, trained by the step of a model that was made for no ensemble; all replicas share one program.

The step is traced once, for a template: a model with variables of its own. A lane has a set of such variables, and its
program is the template's with these in their place: nothing is copied. So each replica gets what it would get alone.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import tensorflow as tf

from tfperf.arrays import ArraysByName, Snapshot
from tfperf.scopes import phase
from tfperf.train.blueprints import Unread
from tfperf.train.contract import check_assigned, check_losses
from tfperf.train.loop import Loop
from tfperf.train.programs import Program
from tfperf.train.snapshots import to_file_type
from tfperf.train.stack import Losses, Stack
from tfperf.train.stopping import LARGEST_WEIGHT

NO_AXIS = ("step", "stopping/")  # of a snapshot: common to all, or with the replicas first as they are


class Template(Unread):
    """The variables that a step was traced with, by names that do not change between processes."""

    def __init__(self, weights: Mapping[str, tf.Variable], state: Mapping[str, tf.Variable]) -> None:
        """weights: the best are kept of them; state: what else the step changes, as slots of the optimizer."""
        self.weights, self.state = dict(weights), dict(state)

    @property
    def variables(self) -> dict[str, tf.Variable]:
        """All."""
        return self.weights | self.state


class TrainingLane(Stack):
    """One replica: variables like a template's, without an axis of replicas, and steps of its own in epochs."""

    replicas = 1

    def __init__(self, template: Template) -> None:
        self.template = template
        self.weights = {name: tf.Variable(v, trainable=False) for name, v in template.weights.items()}
        self.state = {name: tf.Variable(v, trainable=False) for name, v in template.state.items()}

    def list_weights(self) -> Any:
        """The replica's own."""
        return self.weights

    def list_state(self) -> dict[str, tf.Variable]:
        """The replica's own."""
        return self.state

    def evaluate_losses(self, step: tf.Tensor, prepared: Any) -> Losses:
        """Of no use: a lane takes steps of its own."""
        raise NotImplementedError

    def evaluate_metrics(self, step: tf.Tensor) -> tuple[Losses, Mapping[str, tf.Tensor]]:
        """Of no use: the history keeps what epochs tell."""
        raise NotImplementedError


class LaneLoop(Loop):
    """The training of a lane. It ends with its replica, so nothing that a step did is undone."""

    stack: TrainingLane
    shares_others = True  # of the template, as samples

    def _make_variables(self) -> None:
        self.kept_weights = {name: tf.Variable(v, trainable=False) for name, v in self.stack.weights.items()}

    def list_variables(self) -> dict[str, tf.Variable]:
        """Every variable but the kept weights by a name that does not change between processes."""
        own = {f"model/{name}": v for name, v in self.stack.weights.items()}
        own |= {f"state/{name}": v for name, v in self.stack.list_state().items()}
        return {"step": self.step, **own, **{f"stopping/{k}": v for k, v in self.stopping.list_variables().items()}}

    def _list_all(self) -> dict[str, tf.Variable]:
        return self.list_variables() | {f"kept/{name}": v for name, v in self.kept_weights.items()}

    def snapshot(self) -> Snapshot:
        """The values of all variables, those of the replica with an axis for it."""
        found = {name: to_file_type(variable.numpy()) for name, variable in self._list_all().items()}
        return {name: value if name.startswith(NO_AXIS) else value[None] for name, value in found.items()}

    def restore(self, snapshot: ArraysByName) -> None:
        """Set all variables; ValueError when names or shapes are not those of this loop."""
        variables = self._list_all()
        if variables.keys() != snapshot.keys():
            raise ValueError(f"state of another loop: {sorted(variables.keys() ^ snapshot.keys())}")
        for name, variable in variables.items():
            value = snapshot[name] if name.startswith(NO_AXIS) else snapshot[name][0]
            if tuple(variable.shape) != value.shape:
                raise ValueError(f"{name}: got {value.shape}, wanted {tuple(variable.shape)}")
            variable.assign(tf.cast(value, variable.dtype))
        self._rows.clear()

    def _trace(self, name: str, xla: bool) -> Program:
        """The template's program, with the lane's variables."""
        template, lane = self.stack.template.variables, self.stack.weights | self.stack.state
        own = [*self._list_all().values(), *self.stack.list_buffers(), *template.values()]
        stand_ins = {id(variable.handle): lane[key].handle for key, variable in template.items()}
        traced = self._trace_program(name, xla, partial(check_assigned, self.stack, own))
        return Program(traced.function, [stand_ins.get(id(tensor), tensor) for tensor in traced.captures])

    def _begin_call(self) -> None:
        """Nothing: steps work on the lane's variables."""

    def _end_call(self) -> None:
        """The same."""

    def _take_step(self, prepared: Any) -> None:
        step = self.step.read_value()
        losses = self.stack.take_step(step, prepared)
        check_losses(self.stack, losses, "take_step")
        self.stopping.quarantine_losses(step, losses.objective, losses.misfit)
        self.step.assign_add(1)

    def _validate(self) -> tf.Tensor:
        """After an epoch: whether its weights are the best yet, whether it stops."""
        step = self.step.read_value()
        with phase("validation"):
            losses = self.stack.validate(step)
            check_losses(self.stack, losses, "validate")
            variables = self.stack.template.weights.values()
            weights = [tf.convert_to_tensor(v) for v in variables]
            better = self.stopping.record_best(step, losses.monitor, losses.gate)[0]
            for kept, now in zip(self.kept_weights.values(), weights, strict=True):
                kept.assign(tf.where(better, now, kept))
            self.stopping.stop_impatient(step, losses.gate)
            self.stopping.quarantine_losses(step, losses.objective, losses.misfit)
            self.stopping.quarantine(~_are_sound(weights, [v.trainable for v in variables]), step)
        return tf.constant(True)


def _are_sound(weights: Sequence[tf.Tensor], trained: Sequence[bool]) -> tf.Tensor:
    """Whether all that are floating are finite, and those that are trained small enough for it (1)."""
    each = [
        tf.reduce_all(tf.abs(w) <= tf.cast(LARGEST_WEIGHT if own else w.dtype.max, w.dtype))
        for w, own in zip(weights, trained, strict=True)
        if w.dtype.is_floating
    ]
    return tf.reduce_all(each, keepdims=True)
