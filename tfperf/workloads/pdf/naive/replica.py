"""One replica as a plain Keras model: a network, preprocessing, sum rules and rotation. Nodes come before units.

X grid nodes below x = 1, Q quadrature nodes.
"""

import keras
import numpy as np
import tensorflow as tf

from tfperf.workloads.pdf.card import FITTED, Model
from tfperf.workloads.pdf.layers.preprocessing import RangeConstraint
from tfperf.workloads.pdf.layers.quadrature import X_MIN, Quadrature
from tfperf.workloads.pdf.operators.basis import ABSENT, EQUAL_AT_Q0, find_fitted_index

FLAVOURS = (*ABSENT, *FITTED, *EQUAL_AT_Q0)  # all 14 that a table may have


class NaivePreprocessing(keras.layers.Layer):  # Keras is untyped
    """Factor x^(1 - alpha) (1 - x)^beta: x (1, X, 1) -> (1, X, 8)."""

    def __init__(self, options: Model, dtype: str) -> None:
        super().__init__(name="preprocessing", dtype=dtype)
        self.alpha, self.beta = (self._add_exponent(options, name) for name in ("alpha", "beta"))

    def _add_exponent(self, options: Model, name: str) -> keras.Variable:
        low, high = np.array([getattr(options.exponents[f], name) for f in FITTED]).T
        return self.add_weight(
            name=name, shape=low.shape, trainable=options.trainable_exponents, constraint=RangeConstraint(low, high)
        )

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """The factor at the nodes."""
        return x ** (1 - self.alpha) * (1 - x) ** self.beta


class NaiveSumRules(keras.layers.Layer):
    """Factors (1, 1, 8) that make int x (g + sigma) = 1, int v = 3, int v3 = 1, int v8 = 3.

    Takes the network's output (1, Q, 8) and x (1, Q, 1) at the quadrature nodes.
    """

    def __init__(self, rule: Quadrature, analytic_tail: bool, preprocessing: NaivePreprocessing, dtype: str) -> None:
        super().__init__(name="sum_rules", dtype=dtype)
        self.preprocessing, self.analytic_tail = preprocessing, analytic_tail
        self.weights_momentum = tf.constant(rule.weights[:, None], dtype)
        self.weights_number = tf.constant((rule.weights / rule.x)[:, None], dtype)

    def call(self, network: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
        """One for the flavours without a rule."""
        xf = network * self.preprocessing(x)
        each = [xf[..., :2] * self.weights_momentum, xf[..., 2:5] * self.weights_number]
        integral = tf.reduce_sum(tf.concat(each, axis=-1), axis=1)
        if self.analytic_tail:  # below the first node, with the network as constant there
            power = tf.constant([2, 2, 1, 1, 1], xf.dtype) - self.preprocessing.alpha[:5]
            integral += network[:, 0, :5] * X_MIN**power / power
        sigma, g, v, v3, v8 = tf.unstack(integral, axis=-1)
        one = tf.ones_like(sigma)
        return tf.stack([one, (1 - sigma) / g, 3 / v, 1 / v3, 3 / v8, one, one, one], axis=-1)[:, None]


def build_replica(options: Model, rule: Quadrature, name: str, dtype: str) -> keras.Model:
    """Grid x (1, X, 1) and quadrature nodes (1, Q, 1) -> x f (1, X, 14)."""
    x, nodes = (keras.Input(batch_shape=(1, None, 1), dtype=dtype) for _ in range(2))
    dense = [
        keras.layers.Dense(units, activation, name=f"dense_{i}", dtype=dtype)
        for i, (units, activation) in enumerate(zip(options.layers, options.activations, strict=True))
    ]

    def apply_network(x: tf.Tensor) -> tf.Tensor:
        y = keras.ops.concatenate([x, keras.ops.log(x)], axis=-1)
        for layer in dense:
            y = layer(y)
        return y

    preprocessing = NaivePreprocessing(options, dtype)
    sum_rules = NaiveSumRules(rule, options.sum_rules.tail == "analytic", preprocessing, dtype)
    xf = apply_network(x) * preprocessing(x) * sum_rules(apply_network(nodes), nodes)
    rotation = np.array([[find_fitted_index(flavour) == i for flavour in FLAVOURS] for i in range(len(FITTED))], dtype)
    return keras.Model([x, nodes], keras.ops.matmul(xf, rotation), name=name)
