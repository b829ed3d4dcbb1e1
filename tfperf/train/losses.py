"""Every loss of every replica from one forward pass.

R replicas, N points, X nodes, k systematic directions of a block.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tfperf.operators.observables import Observables, combine
from tfperf.operators.problem import Problem
from tfperf.operators.woodbury import Whitened, whiten
from tfperf.runcard.config import FITTED, Card
from tfperf.train.contraction import Contraction, joined

INTEGRABLE = tuple(FITTED.index(f) for f in ("t3", "t8"))


class Losses(NamedTuple):
    """One number per replica (R): chi2 summed over points, penalties without multiplier."""

    training: tf.Tensor
    validation: tf.Tensor
    positivity: tf.Tensor
    integrability: tf.Tensor


def _scales(observables: Observables, factor: NDArray[np.float64]) -> NDArray[np.float64]:
    """What the raw predictions (T) are multiplied with: the points' factors (N) where no operation follows, else 1."""
    scale, begin = np.ones(observables.rows), 0
    for term in observables.terms:
        size = term.rows[0].stop - term.rows[0].start
        if term.operation == "NULL":
            scale[term.rows[0]] = factor[begin : begin + size]
        begin += size
    return scale


@dataclass(frozen=True)
class _Piece:
    """Neighbouring points (n) of one block, in the order of training; all constants in units of the whitened errors."""

    operation: str
    tables: tuple[tuple[int, ...], ...]  # of each table, the first rows of its pieces of the contraction
    factor: tf.Tensor  # (n) what the operation's result is multiplied with
    data: tf.Tensor  # (R, n)
    central: tf.Tensor  # (n)
    mask: tf.Tensor  # (R, n) True: trains
    inverse_weight: tf.Tensor  # (n) takes the sets' weights out again
    block: int | None
    u: tf.Tensor | None  # (n, k) systematics of the block

    def residual(self, raw: Mapping[int, tf.Tensor], data: tf.Tensor) -> tf.Tensor:
        """Prediction - data (R, n), whitened but for correlations."""
        tables = [joined([raw[begin] for begin in table]) for table in self.tables]
        if self.operation == "NULL":
            return tables[0] - data
        return combine(self.operation, tables) * self.factor - data


class ReplicaLosses:
    """Constants of the losses on the device, and the losses as functions of x f (R, 8, X)."""

    def __init__(self, card: Card, problem: Problem) -> None:
        self.dtype = card.engine.precision
        observables, order = problem.observables, problem.observables.order
        whitened = whiten(problem.covariance, problem.sets, np.dtype(self.dtype).type, problem.blocks).ordered(order)
        # the nodes that some prediction or penalty uses; x f(1) = 0: a node there adds nothing
        first = min(p.start for p in observables.products)
        small = np.arange(min(card.integrability.nodes, first))
        self.x = problem.pack.x[np.concatenate([small, np.arange(first, observables.nodes)])]
        self.integrable_nodes = card.integrability.nodes
        self.positive = observables.positive
        factor = whitened.inverse_sigma * problem.root_weight[order]
        self.contraction = Contraction(
            observables.products, _scales(observables, factor), first - len(small), observables.runs, self.dtype
        )
        self.weighted = bool((problem.root_weight != 1).any())
        self.pieces = self._pieces(problem, whitened, factor)
        # (2 R, k, k) for each block: the training halves of all replicas, then the validation halves
        training = problem.training[:, order]
        halves = np.concatenate([training, ~training]).astype(np.float64)
        self.precisions = [tf.constant(p, self.dtype) for p in whitened.precisions(halves)]
        every = whitened.precisions(np.ones((1, len(order))))
        self.precisions_all = [tf.constant(p[0], self.dtype) for p in every]
        self.points = len(order)
        self.points_training = problem.training.sum(axis=1)
        self.points_validation = (~problem.training).sum(axis=1)

    def _pieces(self, problem: Problem, whitened: Whitened, factor: NDArray[np.float64]) -> list[_Piece]:
        observables, order, begin = problem.observables, problem.observables.order, 0
        constant = partial(tf.constant, dtype=self.dtype)
        pieces = []
        for term in observables.terms:
            parts = [self.contraction.covering(rows) for rows in term.rows]
            runs = [parts] if term.operation != "NULL" else [[run] for run in self.contraction.runs(parts[0])]
            for run in runs:
                points = slice(begin, begin := begin + sum(stop - start for start, stop in run[0]))
                block = next(
                    (i for i, b in enumerate(whitened.blocks) if b.rows.start <= points.start < b.rows.stop), None
                )
                u = None if block is None else whitened.blocks[block]
                starts = tuple(tuple(start for start, _ in table) for table in run)
                pieces.append(_Piece(
                    term.operation, starts, constant(factor[points]),
                    constant(problem.data[:, order[points]] * factor[points]),
                    constant(problem.central[order[points]] * factor[points]),
                    tf.constant(problem.training[:, order[points]]),
                    constant(1 / problem.root_weight[order[points]]), block,
                    None if u is None else constant(u.u[points.start - u.rows.start : points.stop - u.rows.start]),
                ))  # fmt: skip
        return pieces

    def __call__(self, pdf: tf.Tensor, weights: bool = True) -> Losses:
        """The losses that training and stopping need, with the sets' weights or, for people, without."""
        raw = self.contraction(pdf)
        residuals = [p.residual(raw, p.data) for p in self.pieces]
        if self.weighted and not weights:
            residuals = [e * p.inverse_weight for e, p in zip(residuals, self.pieces, strict=True)]
        training, validation = self._split_chi2(residuals)
        positive = [raw[start] for rows in self.positive for start, _ in self.contraction.covering(rows)]
        hinge = [tf.reduce_sum(tf.nn.relu(-p), axis=1) for p in positive] or [tf.zeros_like(training)]
        small = tf.gather(pdf, INTEGRABLE, axis=1)[..., : self.integrable_nodes]
        return Losses(training, validation, tf.add_n(hinge), tf.reduce_sum(tf.abs(small), axis=[1, 2]))

    def experimental(self, pdf: tf.Tensor) -> tf.Tensor:
        """chi2 (R) against the central values, over all points, without the sets' weights."""
        raw = self.contraction(pdf)
        residuals = [p.residual(raw, p.central) * p.inverse_weight for p in self.pieces]
        total = tf.add_n([tf.reduce_sum(e * e, axis=1) for e in residuals])
        for z, precision in zip(self._systematics(residuals), self.precisions_all, strict=True):
            total -= tf.reduce_sum(z * tf.matmul(z, precision), axis=1)
        return total

    def _systematics(self, residuals: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """U^T e of each block, (R, k)."""
        sums: list[list[tf.Tensor]] = [[] for _ in self.precisions]
        for e, piece in zip(residuals, self.pieces, strict=True):
            if piece.block is not None:
                sums[piece.block].append(tf.matmul(e, piece.u))
        return [tf.add_n(s) for s in sums]

    def _split_chi2(self, residuals: Sequence[tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """chi2 of the training and of the validation points (R each); only the first has a gradient.

        The gradient 2 m (e - U K^-1 z) takes K^-1 z from the forward pass, so that the K^-1 are read once a step.
        """
        zero = tf.zeros([], self.dtype)

        @tf.custom_gradient
        def function(*residuals: tf.Tensor) -> tuple[tuple[tf.Tensor, tf.Tensor], object]:
            pairs = zip(residuals, self.pieces, strict=True)
            halves = [tf.concat([tf.where(p.mask, e, zero), tf.where(p.mask, zero, e)], axis=0) for e, p in pairs]
            total = tf.add_n([tf.reduce_sum(h * h, axis=1) for h in halves])
            shifts = []
            for z, precision in zip(self._systematics(halves), self.precisions, strict=True):
                shifts.append(tf.linalg.matvec(precision, z))
                total -= tf.reduce_sum(z * shifts[-1], axis=1)
            training, validation = tf.split(total, 2)

            def gradient(upstream: tf.Tensor, _: tf.Tensor) -> list[tf.Tensor]:
                out = []
                for e, piece in zip(residuals, self.pieces, strict=True):
                    if piece.block is not None:
                        e -= tf.matmul(shifts[piece.block][: e.shape[0]], piece.u, transpose_b=True)
                    out.append(2 * upstream[:, None] * tf.where(piece.mask, e, zero))
                return out

            return (training, validation), gradient

        training, validation = function(*residuals)
        return training, validation


def multiplier(initial: float, final: float, steps: int, step: tf.Tensor, dtype: str) -> tf.Tensor:
    """Geometric growth from `initial` at step 0 to `final` at the last of `steps`."""
    done = tf.cast(step, dtype) / max(steps - 1, 1)
    return tf.constant(initial, dtype) * tf.pow(tf.constant(final / initial, dtype), done)
