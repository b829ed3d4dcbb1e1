"""Every loss of every replica from one forward pass.

R replicas, N points, X nodes, k systematic directions of a block.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfperf.operators.observables import combine
from tfperf.operators.problem import Problem
from tfperf.operators.woodbury import whiten
from tfperf.runcard.config import FITTED, Card

INTEGRABLE = tuple(FITTED.index(f) for f in ("t3", "t8"))


class Losses(NamedTuple):
    """One number per replica (R): chi2 summed over points, penalties without multiplier."""

    training: tf.Tensor
    validation: tf.Tensor
    positivity: tf.Tensor
    integrability: tf.Tensor


class ReplicaLosses:
    """Constants of the losses on the device, and the losses as functions of x f (R, 8, X)."""

    def __init__(self, card: Card, problem: Problem) -> None:
        dtype = card.engine.precision
        self.x_used = problem.pack.x < 1  # x f(1) = 0: that node adds nothing
        self.x = problem.pack.x[self.x_used]
        observables = problem.observables
        columns = np.tile(self.x_used, len(FITTED))
        self.table = tf.constant(observables.table[:, columns], dtype)
        self.terms, self.positive = observables.terms, observables.positive
        whitened = whiten(problem.covariance, problem.sets, np.dtype(dtype).type)
        self.inverse_sigma = tf.constant(whitened.inverse_sigma, dtype)
        self.root_weight = tf.constant(problem.root_weight, dtype)
        self.weighted = bool((problem.root_weight != 1).any())
        self.data = tf.constant(problem.data * whitened.inverse_sigma, dtype)
        self.central = tf.constant(problem.central * whitened.inverse_sigma, dtype)
        self.mask = tf.constant(problem.training)
        self.rows = [b.rows for b in whitened.blocks]
        self.systematics = [tf.constant(b.u, dtype) for b in whitened.blocks]
        # (2 R, k, k) for each block: the training halves of all replicas, then the validation halves
        halves = np.concatenate([problem.training, ~problem.training]).astype(np.float64)
        self.precisions = [tf.constant(p, dtype) for p in whitened.precisions(halves)]
        every = whitened.precisions(np.ones((1, len(problem.central))))
        self.precisions_all = [tf.constant(p, dtype) for p in every]
        self.points_training = problem.training.sum(axis=1)
        self.points_validation = (~problem.training).sum(axis=1)
        self.integrable_nodes = card.integrability.nodes

    def residual(self, pdf: tf.Tensor, data: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Whitened residuals e (R, N) and the positivity predictions (R, P)."""
        raw = tf.matmul(tf.reshape(pdf, [pdf.shape[0], -1]), self.table, transpose_b=True)
        parts = [combine(t.operation, [raw[:, r.start : r.stop] for r in t.rows]) for t in self.terms]
        predictions = parts[0] if len(parts) == 1 else tf.concat(parts, axis=1)
        return predictions * self.inverse_sigma - data, raw[:, raw.shape[1] - self.positive :]

    def __call__(self, pdf: tf.Tensor, weights: bool = True) -> Losses:
        """The losses that training and stopping need, with the sets' weights or, for people, without."""
        e, positive = self.residual(pdf, self.data)
        if weights and self.weighted:
            e *= self.root_weight
        training, validation = self._split_chi2(e)
        hinge = tf.reduce_sum(tf.nn.relu(-positive), axis=1)
        small = tf.gather(pdf, INTEGRABLE, axis=1)[..., : self.integrable_nodes]
        return Losses(training, validation, hinge, tf.reduce_sum(tf.abs(small), axis=[1, 2]))

    def experimental(self, pdf: tf.Tensor) -> tf.Tensor:
        """chi2 (R) against the central values, over all points."""
        e, _ = self.residual(pdf, self.central)
        total = tf.reduce_sum(e * e, axis=1)
        for rows, u, precision in zip(self.rows, self.systematics, self.precisions_all, strict=True):
            z = tf.matmul(e[:, rows.start : rows.stop], u)
            total -= tf.reduce_sum(z * tf.matmul(z, precision[0]), axis=1)
        return total

    def _split_chi2(self, e: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """chi2 of the training and of the validation points (R each); only the first has a gradient.

        The gradient 2 m (e - U K^-1 z) takes K^-1 z from the forward pass, so that the K^-1 are read once a step.
        """
        zero = tf.zeros([], e.dtype)

        @tf.custom_gradient
        def function(e: tf.Tensor) -> tuple[tuple[tf.Tensor, tf.Tensor], object]:
            halves = tf.concat([tf.where(self.mask, e, zero), tf.where(self.mask, zero, e)], axis=0)
            total = tf.reduce_sum(halves * halves, axis=1)
            shifts = []
            for rows, u, precision in zip(self.rows, self.systematics, self.precisions, strict=True):
                z = tf.matmul(halves[:, rows.start : rows.stop], u)
                shift = tf.linalg.matvec(precision, z)
                total -= tf.reduce_sum(z * shift, axis=1)
                shifts.append(shift)
            training, validation = tf.split(total, 2)

            def gradient(upstream: tf.Tensor, _: tf.Tensor) -> tf.Tensor:
                absorbed = self._absorbed([s[: e.shape[0]] for s in shifts], e)
                return 2 * upstream[:, None] * tf.where(self.mask, e - absorbed, zero)

            return (training, validation), gradient

        training, validation = function(e)
        return training, validation

    def _absorbed(self, shifts: list[tf.Tensor], e: tf.Tensor) -> tf.Tensor:
        """What the systematics take up of each residual: U K^-1 z, (R, N); zero for points in no block."""
        parts, end = [], 0
        for rows, u, shift in zip(self.rows, self.systematics, shifts, strict=True):
            parts += [tf.zeros_like(e[:, end : rows.start])] if rows.start > end else []
            parts.append(tf.matmul(shift, u, transpose_b=True))
            end = rows.stop
        parts += [tf.zeros_like(e[:, end:])] if end < e.shape[1] else []
        return tf.concat(parts, axis=1)


def multiplier(initial: float, final: float, steps: int, step: tf.Tensor, dtype: str) -> tf.Tensor:
    """Geometric growth from `initial` at step 0 to `final` at the last of `steps`."""
    done = tf.cast(step, dtype) / max(steps - 1, 1)
    return tf.constant(initial, dtype) * tf.pow(tf.constant(final / initial, dtype), done)
