"""An ensemble on Keras' JAX backend, as a program of its own: for each line on stdin, a number of epochs, a JSON line.

    python -m benchmarks.ensembles_jax PART REPLICAS SAMPLES VALIDATED

All replicas take an epoch in one compiled call: `jax.vmap` over their states, `lax.scan` over the steps, each the
model's own step, which is stateless on this backend. Each replica has its own weights and order of the samples,
metrics, a validation once an epoch, patience and best weights. Needs Keras and JAX, not TensorFlow.
R replicas, N samples, B of them a batch.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ["KERAS_BACKEND"] = "jax"

import jax
import jax.numpy as jnp
import keras
import numpy as np

from benchmarks.ensembles_models import BATCH, build_compiled, load_samples

Nest = Any  # of arrays
FOREVER = 10**6  # validations without a better loss
# where XLA has no fast form of a layer for all replicas at once, one after the other in the compiled call
SPREADS: dict[str, Callable[..., Any]] = {
    "vmap": jax.vmap, "map": lambda function: lambda *all_: jax.lax.map(lambda one: function(*one), all_)
}  # fmt: skip
# convolutions in groups, which XLA has no fast form of: a step and a test of ten, 32 images each, took 11 s
SLOW = (("cnn", "vmap"),)


class JaxEnsemble:
    """R replicas of a model: what they have come to, and an epoch of all. Its state has the replicas first."""

    def __init__(self, part: str, replicas: int, samples: int, validated: int, spread: str) -> None:
        self.draw, self.samples, self.replicas = np.random.default_rng(0), samples, replicas
        x, y = (jnp.asarray(one) for one in load_samples(part, samples, validated))
        self.training, self.held = (x[:samples], y[:samples]), (x[samples:], y[samples:])
        starts = []
        for number in range(replicas):
            keras.utils.set_random_seed(number)
            self.model = build_compiled(part)
            self.model._symbolic_build(data_batch=(x[:BATCH], y[:BATCH]))  # metrics get their variables
            self.model.optimizer.build(self.model.trainable_variables)
            starts.append([[v.value for v in some] for some in self._list_variables()])
        self.state = jax.tree.map(lambda *some: jnp.stack(some), *starts)
        best = (self.state[:2], jnp.full([replicas], jnp.inf), jnp.zeros([replicas], jnp.int32))
        self.best = jax.tree.map(jnp.copy, best)  # weights, their loss, validations since
        self._train = jax.jit(SPREADS[spread](self._train_epoch), donate_argnums=(0, 1))

    def _list_variables(self) -> list[list[Any]]:
        model = self.model
        return [
            model.trainable_variables, model.non_trainable_variables, model.optimizer.variables,
            model.metrics_variables,
        ]  # fmt: skip

    def train(self, epochs: int) -> dict[str, Nest]:
        """Take so many epochs; what the last one tells of each replica (R)."""
        logs: dict[str, Nest] = {}
        for _ in range(epochs):
            order = np.tile(np.arange(self.samples, dtype=np.int32), (self.replicas, 1))
            rows = self.draw.permuted(order, axis=1)[:, : self.samples // BATCH * BATCH]
            self.state, self.best, logs = self._train(
                self.state, self.best, jnp.asarray(rows.reshape(self.replicas, -1, BATCH))
            )
            logs = {name: np.asarray(value) for name, value in logs.items()}  # as a callback would see them
        return logs

    def _train_epoch(self, state: Nest, best: Nest, rows: Nest) -> tuple[Nest, Nest, Nest]:
        """Of one replica; rows: the samples of each step (N / B, B)."""

        def take(state: Nest, some: Nest) -> tuple[Nest, None]:
            _, after = self.model.train_step(tuple(state), tuple(one[some] for one in self.training))
            return list(after), None

        def test(state: Nest, some: Nest) -> tuple[Nest, None]:
            _, after = self.model.test_step(tuple(state), tuple(one[some] for one in self.held))
            return list(after), None

        weights, kept, since = best
        after, _ = jax.lax.scan(take, [*state[:3], _make_zeros(state[3])], rows)
        logs = self._read(after[3])
        count = len(self.held[0]) // BATCH
        tests = jnp.arange(count * BATCH).reshape(count, BATCH)
        tested, _ = jax.lax.scan(test, [*after[:2], _make_zeros(after[3])], tests)
        logs |= {f"val_{name}": value for name, value in self._read(tested[2]).items()}
        after = _select(since >= FOREVER, state, after)
        better = logs["val_loss"] < kept
        best = _select(better, (after[:2], logs["val_loss"], since * 0), (weights, kept, since + 1))
        return after, best, logs

    def _read(self, metrics: Nest) -> dict[str, Nest]:
        """What the metrics say."""
        with keras.StatelessScope(state_mapping=list(zip(self.model.metrics_variables, metrics, strict=True))):
            return dict(self.model.get_metrics_result())


def _make_zeros(nest: Nest) -> Nest:
    return jax.tree.map(jnp.zeros_like, nest)


def _select(condition: Nest, one: Nest, other: Nest) -> Nest:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), one, other)


def prepare_fastest(part: str, replicas: int, samples: int, validated: int) -> tuple[str, JaxEnsemble]:
    """The fastest of the ways to take all replicas, compiled."""
    found = {}
    for spread in SPREADS:
        if (part, spread) in SLOW:
            continue
        ensemble = JaxEnsemble(part, replicas, samples, validated, spread)
        ensemble.train(1)
        start = time.perf_counter()
        ensemble.train(1)
        found[time.perf_counter() - start] = spread, ensemble
    return found[min(found)]


def main() -> None:
    """Time what is asked for."""
    part, *counts = sys.argv[1:]
    spread, ensemble = prepare_fastest(part, *map(int, counts))
    print(json.dumps({"spread": spread, "versions": {"jax": jax.__version__, "keras": keras.__version__}}), flush=True)
    for line in sys.stdin:
        start = time.perf_counter()
        logs = ensemble.train(int(line))
        seconds = time.perf_counter() - start
        print(json.dumps({"seconds": seconds, "val_loss": float(np.median(logs["val_loss"]))}), flush=True)


if __name__ == "__main__":
    main()
