"""Momentum and valence sum rules."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfperf.workloads.pdf.card import FITTED
from tfperf.workloads.pdf.layers.quadrature import X_MIN, Quadrature

INTEGRATED = FITTED[:5]  # sigma, g, v, v3, v8
MOMENTUM = 2  # the first two: their own integral counts; the others are divided by x


class SumRuleNormalisation(keras.layers.Layer):
    """Normalise g, v, v3, v8 so that int x(g + sigma) = 1, int v = 3, int v3 = 1, int v8 = 3 over x.

    Shapes: the preprocessing factor and the network's output at the Q quadrature nodes (R, 8, Q); `weigh` returns
    (R, 5, Q), `call` the normalisation (R, 8, 1). Source: NNPDF4.0, arXiv:2109.02653, section 3.1.2.
    """

    def __init__(self, rule: Quadrature, analytic_tail: bool, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        measure = np.stack([rule.weights if i < MOMENTUM else rule.weights / rule.x for i in range(len(INTEGRATED))])
        self.node_weights = tf.constant(measure, self.compute_dtype)
        self.analytic_tail = analytic_tail

    def weigh(self, factor: tf.Tensor, alpha: tf.Tensor) -> tf.Tensor:
        """Factor and quadrature weight of each node in one; alpha (R, 8, 1) gives the tail's power.

        The tail takes the network at X_MIN, the first node, as constant below it: its integral is X_MIN^p / p with
        p = 2 - alpha for momenta and 1 - alpha for valence numbers.
        """
        count = len(INTEGRATED)
        weighted = factor[:, :count] * self.node_weights
        if not self.analytic_tail:
            return weighted
        power = 1 - alpha[:, :count] + tf.constant([[1.0]] * MOMENTUM + [[0.0]] * (count - MOMENTUM), alpha.dtype)
        tail = tf.pow(tf.constant(X_MIN, alpha.dtype), power) / power
        return tf.concat([weighted[..., :1] + tail, weighted[..., 1:]], axis=-1)

    def call(self, network: tf.Tensor, weighted: tf.Tensor) -> tf.Tensor:
        """Factors for the eight flavours."""
        integral = tf.reduce_sum(network[:, : len(INTEGRATED)] * weighted, axis=-1, keepdims=True)
        sigma, g, v, v3, v8 = tf.unstack(integral, axis=1)
        one = tf.ones_like(sigma)
        return tf.stack([one, (1 - sigma) / g, 3 / v, 1 / v3, 3 / v8, one, one, one], axis=1)
