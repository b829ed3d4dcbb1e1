"""The ensemble of parton densities: R networks with preprocessing and sum rules, as one Keras model."""

from collections.abc import Sequence
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfperf.arrays import Float64Array, ReplicaWeights
from tfperf.data.keys import Purpose, make_generator
from tfperf.workloads.pdf.card import FITTED, Model
from tfperf.workloads.pdf.layers.dense import StackedDense
from tfperf.workloads.pdf.layers.preprocessing import Preprocessing
from tfperf.workloads.pdf.layers.quadrature import make_quadrature
from tfperf.workloads.pdf.layers.sum_rules import SumRuleNormalisation


class GridConstants(NamedTuple):
    """What does not change while only the networks train: X grid nodes, Q quadrature nodes."""

    features: tf.Tensor  # (2, X + Q): x and log x
    factor: tf.Tensor  # (R, 8, X) preprocessing on the grid
    weighted: tf.Tensor  # (R, 5, Q) preprocessing times quadrature weight


class PDF(keras.Model):
    """x f(x, Q0) of the fitted flavours for R replicas.

    x -> (x, log x) -> dense layers -> times x^(1-alpha) (1-x)^beta -> sum rules. Shapes: x (X) -> (R, 8, X).
    Weights are zero until `initialize` or `assign_weights`. Built from the card alone; a run stores its weights.
    """

    def __init__(self, options: Model, replicas: int, dtype: str = "float32") -> None:
        super().__init__(name="pdf", dtype=dtype)
        self.options, self.replicas = options, replicas
        self.hidden = [
            StackedDense(replicas, units, activation, name=f"dense_{i}", dtype=dtype)
            for i, (units, activation) in enumerate(zip(options.layers, options.activations, strict=True))
        ]
        ranges = np.array([[getattr(options.exponents[f], e) for f in FITTED] for e in ("alpha", "beta")]).transpose(
            0, 2, 1
        )
        self.preprocessing = Preprocessing(
            replicas, ranges, options.trainable_exponents, name="preprocessing", dtype=dtype
        )
        self.rule = make_quadrature(options.sum_rules)
        self.sum_rules = SumRuleNormalisation(
            self.rule, options.sum_rules.tail == "analytic", name="sum_rules", dtype=dtype
        )
        inputs = 2
        for layer in self.hidden:
            layer.build((inputs, None))
            inputs = layer.units
        self.built = True

    def prepare(self, x: Float64Array) -> GridConstants:
        """The constant part for the grid x (X); it changes only with the exponents."""
        nodes = np.concatenate([x, self.rule.x])
        features = tf.constant(np.stack([nodes, np.log(nodes)]), self.compute_dtype)
        factor = self.preprocessing(features[0])
        weighted = self.sum_rules.weigh(factor[..., len(x) :], self.preprocessing.alpha)
        return GridConstants(features, factor[..., : len(x)], weighted)

    def evaluate_at(self, grid: GridConstants) -> tf.Tensor:
        """x f at the grid of the nodes: (R, 8, X)."""
        y = grid.features
        for layer in self.hidden:
            y = layer(y)
        split = grid.factor.shape[-1]
        return y[..., :split] * grid.factor * self.sum_rules(y[..., split:], grid.weighted)

    def call(self, x: Float64Array) -> tf.Tensor:
        """x f at any grid of constants x (X)."""
        return self.evaluate_at(self.prepare(np.asarray(x)))

    def initialize(self, seed: int, ids: Sequence[int], attempts: Sequence[int]) -> None:
        """Start each replica as if it were alone: weights and exponents from its own streams."""
        starts = list(zip(ids, attempts, strict=True))
        streams = [make_generator(seed, i, Purpose.WEIGHTS, a) for i, a in starts]
        for layer in self.hidden:
            layer.initialize(self.options.initializer, [int(s.integers(2**31)) for s in streams])
        draws = [make_generator(seed, i, Purpose.EXPONENTS, a).uniform(size=(2, len(FITTED))) for i, a in starts]
        for k, (name, weight) in enumerate(zip(("alpha", "beta"), self.exponents, strict=True)):
            low, high = np.array([getattr(self.options.exponents[f], name) for f in FITTED]).T
            weight.assign((low + (high - low) * np.stack(draws)[:, k])[:, :, None])

    @property
    def exponents(self) -> tuple[keras.Variable, keras.Variable]:
        """Alpha and beta: (R, 8, 1) each."""
        return self.preprocessing.alpha, self.preprocessing.beta

    def list_weights(self) -> dict[str, keras.Variable]:
        """All weights by a name that does not change: `dense_0/kernel`, ..., `preprocessing/beta`."""
        layers: list[keras.layers.Layer] = [*self.hidden, self.preprocessing]
        return {f"{layer.name}/{w.name}": w for layer in layers for w in layer.weights}

    def assign_weights(self, weights: ReplicaWeights) -> None:
        """Set all weights from arrays (R, ...) by name; ValueError for a missing one or a wrong shape."""
        for name, variable in self.list_weights().items():
            if name not in weights or weights[name].shape != tuple(variable.shape):
                given = weights[name].shape if name in weights else "nothing"
                raise ValueError(f"{name}: got {given}, wanted {tuple(variable.shape)}")
            variable.assign(weights[name])
