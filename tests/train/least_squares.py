"""A training that has nothing to do with any workload: R least-squares problems, each with an answer that is known.

R replicas, N rows of which some train and the others are monitored, P parameters. In float64.
python -m tests.train.least_squares FOLDER DEVICES NAME: the training on logical CPUs, written to FOLDER/NAME.npz.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from tests.train.problems import checkpoints_in
from tfperf.data.cache import digest
from tfperf.runcard.optimizers import ReplicaOptimizer
from tfperf.signals import Signals
from tfperf.train.ensemble import Ensemble
from tfperf.train.forms import PlainForm
from tfperf.train.retirement import Retirement
from tfperf.train.settings import Settings
from tfperf.train.stack import Losses, Stack
from tfperf.train.stopping import ReplicaState
from tfperf.train.tolerance import ToleranceCheck
from tfperf.train.trainer import Trainer

REPLICAS, ROWS, PARAMETERS, STEPS, PATIENCE = 8, 24, 3, 120, 12
RATE, FRICTION = 0.125, 0.5  # which a float32 holds exactly, as Keras keeps them
CPUS = 4


@dataclass(frozen=True)
class Data:
    """R problems: |A w - y|^2 / n over the rows that train is minimised."""

    a: np.ndarray  # (R, N, P)
    y: np.ndarray  # (R, N)
    trains: np.ndarray  # (R, N)

    @classmethod
    def draw(cls, replicas: int = REPLICAS) -> "Data":
        rng = np.random.default_rng(3)
        a = rng.normal(size=(replicas, ROWS, PARAMETERS)) * [1.0, 0.5, 0.25]
        noise = rng.normal(size=(replicas, ROWS)) * np.linspace(0.01, 1, replicas)[:, None]
        trains = np.array([rng.permutation(np.arange(ROWS) < ROWS // 2) for _ in range(replicas)])
        return cls(a, np.einsum("rnp,rp->rn", a, rng.normal(size=(replicas, PARAMETERS))) + noise, trains)

    @classmethod
    def solve(cls) -> tuple["Data", np.ndarray]:
        """Problems whose rows agree with one another, and their solutions (R, P): steps halve what is left, nearly."""
        one = cls.draw()
        a, x = one.a.copy(), np.random.default_rng(4).normal(size=(REPLICAS, PARAMETERS))
        for r, mask in enumerate(one.trains):
            for half in (mask, ~mask):
                a[r, half] = np.linalg.qr(a[r, half])[0] * np.sqrt(np.sum(half))
        return replace(one, a=a, y=np.einsum("rnp,rp->rn", a, x)), x

    def take(self, indices: Sequence[int]) -> "Data":
        """Some of the problems."""
        return Data(self.a[indices], self.y[indices], self.trains[indices])

    def fit_slowly(self, r: int, friction: float = 0.0) -> tuple[np.ndarray, int, int]:
        """Weights, best step and stop step of one problem: steepest descent in NumPy, stopped by the rule."""
        a, y, w, v = self.a[r], self.y[r], np.zeros(PARAMETERS), np.zeros(PARAMETERS)
        best, kept, best_step = np.inf, w, -1
        halves = [(a[mask], y[mask]) for mask in (self.trains[r], ~self.trains[r])]
        for step in range(STEPS + 1):
            (a, y), (b, z) = halves
            monitor = np.sum((b @ w - z) ** 2) / len(z)
            if monitor < best:
                best, kept, best_step = monitor, w, step
            if step == STEPS or step - best_step >= PATIENCE:
                return kept, best_step, step
            v = friction * v - RATE * 2 * a.T @ (a @ w - y) / len(y)
            w = w + v
        raise AssertionError


class LeastSquares(Stack):
    """R problems, started at zero."""

    def __init__(self, data: Data, rows: int) -> None:
        """rows: that are looked at, the first ones of each problem."""
        self.replicas, self.precision = len(data.y), "float64"
        self.w = keras.Variable(np.zeros((self.replicas, PARAMETERS)), dtype="float64", name="w")
        self.offset = keras.Variable(np.zeros((self.replicas, 1)), dtype="float64", name="offset", trainable=False)
        self.a, self.y = tf.constant(data.a[:, :rows]), tf.constant(data.y[:, :rows])
        used = data.trains[:, :rows]
        self.training = tf.constant(used / np.maximum(data.trains.sum(axis=1, keepdims=True), 1))
        self.others = tf.constant(~used / np.maximum((~data.trains).sum(axis=1, keepdims=True), 1))

    def list_weights(self):
        return {"w": self.w, "offset": self.offset}

    def squares(self):
        return (tf.linalg.matvec(self.a, tf.convert_to_tensor(self.w)) + self.offset - self.y) ** 2

    def evaluate_losses(self, step, prepared):
        squares = self.squares()
        training = tf.reduce_sum(squares * self.training, axis=1)
        monitor = tf.reduce_sum(squares * self.others, axis=1)
        return Losses(training, monitor, tf.ones_like(training, tf.bool), training)

    def evaluate_metrics(self, step):
        losses = self.evaluate_losses(step, None)
        return losses, {"training": losses.objective, "monitor": losses.monitor}


class HeavyBall(LeastSquares):
    """The same with a step of its own, which has velocities and counts how often it was taken."""

    def __init__(self, data: Data, rows: int) -> None:
        super().__init__(data, rows)
        self.velocity = tf.Variable(np.zeros((self.replicas, PARAMETERS)))
        self.taken = tf.Variable(np.zeros(self.replicas, np.int64))
        self.calls = tf.Variable(0, dtype=tf.int64)

    def list_state(self):
        return {"velocity": self.velocity, "taken": self.taken, "calls": self.calls}

    def take_step(self, step, prepared):
        with tf.GradientTape() as tape:
            tape.watch(self.w.value)
            losses = self.evaluate_losses(step, prepared)
        slope = tape.gradient(losses.objective, self.w.value)
        self.velocity.assign(FRICTION * self.velocity - RATE * slope)
        self.w.assign(self.w + self.velocity)
        self.taken.assign_add(tf.ones_like(self.taken))
        self.calls.assign_add(1)
        return losses


@dataclass(frozen=True)
class FirstRows(PlainForm):
    """The losses of the first rows alone, as many as `numbers` says."""

    name: str = "first"
    numbers: tuple[int, ...] = (ROWS,)

    def replace_numbers(self, numbers):
        return replace(self, numbers=numbers)


class Factory:
    """Makes stacks of the problems."""

    metrics, progress_metric = ("training", "monitor"), "monitor"

    def __init__(self, data: Data, kind: type[LeastSquares] = LeastSquares) -> None:
        self.data, self.kind, self.replicas = data, kind, len(data.y)

    def build(self, indices, form):
        return self.kind(self.data.take(indices), form.numbers[0] if form.numbers else ROWS)

    def initialize(self, stack, indices):
        stack.w.assign(np.zeros((len(indices), PARAMETERS)))

    def digest(self, form):
        return digest("least squares", self.kind.__name__, form.numbers)


class RowsCheck(ToleranceCheck):
    """Looks at all rows, and takes eight more where the monitor is off."""

    def __init__(self, data: Data) -> None:
        super().__init__(1e-9, every=10)
        self.data = data

    def may_deviate(self, form):
        return form.name == "first"

    def compute_deviation(self, weights, losses, indices):
        one = LeastSquares(self.data.take(indices), ROWS)
        one.w.assign(weights["w"])
        exact = one.evaluate_losses(None, None).monitor
        return float(np.max(np.abs(exact.numpy().astype(np.float32) - losses["monitor"][indices])))

    def mend(self, form, step, worst):
        return form.replace_numbers((min(ROWS, form.numbers[0] + 8),))


SETTINGS = Settings(
    steps=STEPS, optimizer=ReplicaOptimizer(name="SGD", learning_rate=RATE, clipnorm=None), patience=PATIENCE,
    precision="float64", steps_per_call=10,
    checkpoint_every=10, xla=False, devices=1, cache=False,
)  # fmt: skip


class Training:
    """One training of problems, with all that the engine does."""

    def __init__(
        self, folder, data=None, kind=LeastSquares, stacks=1, at=(), form=None, settings=SETTINGS, check=None
    ) -> None:  # fmt: skip
        self.data = Data.draw() if data is None else data
        self.ensemble = Ensemble(settings, Factory(self.data, kind), form or PlainForm(), stacks)
        plan = Retirement(self.ensemble.layout, STEPS, at, 0.0)
        self.trainer = Trainer(self.ensemble, settings.xla is True, 10, plan, checkpoints_in(folder), check)

    def train(self, signals=None):
        """To its end, or to the signal's."""
        self.seen = []
        self.trainer.train(signals or Signals(), self.seen.append)
        return self

    def result(self):
        """Best weights, best and stop steps, states."""
        end = self.ensemble.gather_state()
        state, step = end["stopping/state"], self.ensemble.step
        stop = np.where(state == ReplicaState.RUNNING, step, end["stopping/stop_step"])
        return self.ensemble.get_best_weights()["w"], end["stopping/best_step"], stop, state


if __name__ == "__main__":
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * CPUS)
    folder, devices, name = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    training = Training(folder / name, at=(40, 80), settings=replace(SETTINGS, devices=devices)).train()
    places = [shard.loop.stack.a.device for shard in training.ensemble.shards]
    arrays = dict(zip(("w", "best", "stop", "state"), training.result(), strict=True))
    np.savez(folder / f"{name}.npz", places=places, sizes=training.ensemble.sizes, **arrays)
