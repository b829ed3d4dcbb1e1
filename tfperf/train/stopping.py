"""Which replica goes on, and which weights it keeps: state on the device, one entry per replica."""

from enum import IntEnum

import numpy as np
import tensorflow as tf

from tfperf.arrays import Int64Array

NEVER = np.iinfo(np.int64).max  # a step
BLOWN_UP = 1e10  # times a good fit's misfit; a network near a pole may show this for a while, and recover
# far beyond what training reaches; in float32 such a weight could not move by a step any more
LARGEST_WEIGHT = 1e8


class ReplicaState(IntEnum):
    """Where a replica stands."""

    RUNNING = 0
    STOPPED = 1
    QUARANTINED = 2


class EarlyStopping:
    """Best monitor so far, when it was, and who still runs; all (R).

    A replica's weights count as best when it passes the gate and its monitor is lower than ever. It stops when the best
    ones are `patience` steps old, at a step where it passes the gate: one that does not pass goes on, since its best
    weights may be an early accident.

    A replica is quarantined at once when its objective, gradient or a weight is not finite or a weight is above
    LARGEST_WEIGHT, and when its misfit was above BLOWN_UP for `patience` steps in a row.
    """

    def __init__(self, replicas: int, patience: int, dtype: str) -> None:
        self.patience = patience
        self.best = tf.Variable(tf.fill([replicas], tf.constant(float("inf"), dtype)), name="best")
        self.best_step = tf.Variable(tf.fill([replicas], tf.constant(-1, tf.int64)), name="best_step")
        self.stop_step = tf.Variable(tf.zeros([replicas], tf.int64), name="stop_step")
        self.state = tf.Variable(tf.zeros([replicas], tf.int32), name="state")
        self.blown_up = tf.Variable(tf.zeros([replicas], tf.int32), name="blown_up")  # steps in a row

    def is_running(self) -> tf.Tensor:
        """True for replicas that train (R)."""
        return tf.equal(self.state, int(ReplicaState.RUNNING))

    def record_best(
        self, step: tf.Tensor, monitor: tf.Tensor, gate: tf.Tensor, eligible: tf.Tensor | bool = True
    ) -> tf.Tensor:
        """Record better weights; true where there were some (R). A NaN is never better, nor what is not eligible."""
        better = self.is_running() & (monitor < self.best) & gate & eligible
        self.best.assign(tf.where(better, monitor, self.best))
        self.best_step.assign(tf.where(better, step, self.best_step))
        return better

    def stop_impatient(self, step: tf.Tensor, gate: tf.Tensor) -> None:
        """Stop the replicas that pass the gate while their best weights are `patience` steps old."""
        waited = (self.best_step >= 0) & (step - self.best_step >= self.patience)
        self.stop(waited & gate, step)

    def stop(self, which: tf.Tensor, step: tf.Tensor) -> None:
        """Stop replicas that run (R), for whatever reason."""
        self._set_state(which, step, ReplicaState.STOPPED)

    def quarantine_losses(self, step: tf.Tensor, objective: tf.Tensor, misfit: tf.Tensor) -> None:
        """Freeze replicas by what they minimise (R) and their misfit (R)."""
        high = self.is_running() & (misfit > BLOWN_UP)
        self.blown_up.assign(tf.where(high, self.blown_up + 1, 0))
        self.quarantine(~tf.math.is_finite(objective) | (self.blown_up >= self.patience), step)

    def quarantine(self, broken: tf.Tensor, step: tf.Tensor) -> None:
        """Freeze the broken replicas (R)."""
        self._set_state(broken, step, ReplicaState.QUARANTINED)

    def _set_state(self, which: tf.Tensor, step: tf.Tensor, state: ReplicaState) -> None:
        which = which & self.is_running()
        self.stop_step.assign(tf.where(which, step, self.stop_step))
        self.state.assign(tf.where(which, int(state), self.state))

    def read_stop_steps(self) -> Int64Array:
        """When each replica stopped, of one that runs a step that never comes (R)."""
        stop: Int64Array = np.where(self.state.numpy() == ReplicaState.RUNNING, NEVER, self.stop_step.numpy())
        return stop

    def list_variables(self) -> dict[str, tf.Variable]:
        """All state by name."""
        every = (self.best, self.best_step, self.stop_step, self.state, self.blown_up)
        return {v.name.split(":")[0]: v for v in every}
