"""Many optimizer steps of one stack in one compiled call: the stack's variables, programs and history."""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from tfperf.arrays import ArraysByName, Float32Array, ReplicaWeights, Snapshot
from tfperf.train.blueprints import Blueprints, list_constants
from tfperf.train.contract import check_assigned, check_variables
from tfperf.train.epoch_rows import EpochRows
from tfperf.train.flat import Flattener
from tfperf.train.optimizers import build_optimizer
from tfperf.train.programs import Program, trace
from tfperf.train.settings import Settings
from tfperf.train.stack import Stack
from tfperf.train.steps import TracedSteps
from tfperf.train.stopping import EarlyStopping


def select_best_weights(state: ArraysByName) -> ReplicaWeights:
    """Weights by name (R, ...) in a snapshot: the best ones, of a replica that has none its last."""
    found = state["stopping/best_step"] >= 0
    out = {}
    for name in (key.removeprefix("model/") for key in state if key.startswith("model/")):
        last = state[f"model/{name}"]
        best = state.get(f"kept/{name}", last)
        out[name] = np.where(found.reshape([-1] + [1] * (last.ndim - 1)), best, last)
    return out


class Loop(TracedSteps):
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
        self.trained = [weights[name] for name in self.names]
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

    def is_done(self) -> bool:
        """True when no step is left to take."""
        return int(self.step) >= self.settings.steps or not bool(tf.reduce_any(self.stopping.is_running()))

    def trace_step(self) -> Any:
        """A call of a single step, without a loop around it, as a concrete function that nothing compiles."""
        return tf.function(self.take_single_step, autograph=False).get_concrete_function()

    def get_best_weights(self) -> ReplicaWeights:
        """Weights by name (R, ...): the best ones, of a replica that has none its last."""
        return select_best_weights(self.snapshot())

    def close(self) -> None:
        """Let go of the compiled functions, which hold the loop in a cycle: no step can be taken any more."""
        self._compiled.clear()
