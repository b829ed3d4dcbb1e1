"""Every loss of every replica from one forward pass.

R replicas, N points, X nodes, k systematics of a block.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfperf.arrays import Float64Array
from tfperf.workloads.pdf.card import FITTED, Card
from tfperf.workloads.pdf.contraction import Contraction, join_columns
from tfperf.workloads.pdf.operators.folding import FoldedPoints
from tfperf.workloads.pdf.operators.loss_constants import LossConstants, PointConstants, build_shared
from tfperf.workloads.pdf.operators.observables import Segment, add_denominator, combine
from tfperf.workloads.pdf.operators.problem import Problem

HalfChi2 = tuple[tf.Tensor, tf.Tensor]  # of the training points, and of the validation points: (R) each
INTEGRABLE = tuple(FITTED.index(f) for f in ("t3", "t8"))


class Terms(NamedTuple):
    """One number per replica (R): chi2 summed over points, penalties without multiplier."""

    training: tf.Tensor
    validation: tf.Tensor
    positivity: tf.Tensor
    integrability: tf.Tensor


class _SplitChi2(NamedTuple):
    """chi2 of both halves of the points (R each), and what its gradient takes from the forward pass."""

    training: tf.Tensor
    validation: tf.Tensor
    shifts: Sequence[tf.Tensor]  # of each block K^-1 z (2 R, k), training halves first
    folded_slope: tf.Tensor | None  # (2 R, D) half the folded points' slope in their directions


def _compute_scales(points: PointConstants) -> Float64Array:
    """What the raw predictions (T) are multiplied with: the points' factors where no operation follows, else 1."""
    scale, begin = np.ones(points.observables.row_count), 0
    for segment in points.observables.segments:
        size = segment.rows[0].stop - segment.rows[0].start
        if segment.operation == "NULL":
            scale[segment.rows[0]] = points.factor[begin : begin + size]
        begin += size
    return scale


@dataclass(frozen=True, kw_only=True)
class _SegmentConstants:
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
    denominator_scale: tf.Tensor | None  # (n or 1); None: denominators may be negative

    def compute_residual(self, raw: Mapping[int, tf.Tensor], data: tf.Tensor) -> tf.Tensor:
        """Prediction - data (R, n), whitened but for correlations."""
        tables = [join_columns([raw[begin] for begin in table]) for table in self.tables]
        if self.operation == "NULL":
            return tables[0] - data
        return combine(self.operation, tables) * self.factor - data

    def compute_negative_denominators(self, raw: Mapping[int, tf.Tensor]) -> tf.Tensor:
        """By how much denominators are below zero, summed (R)."""
        tables = [join_columns([raw[begin] for begin in table]) for table in self.tables]
        negative = tf.nn.relu(-add_denominator(self.operation, tables) * self.denominator_scale)
        return tf.reduce_sum(negative, axis=1)


def _shift(rows: slice, by: int) -> slice:
    return slice(rows.start + by, rows.stop + by)


class _Residuals:
    """Residuals of some points as functions of x f, and their systematics."""

    def __init__(self, points: PointConstants, first: int, dtype: str) -> None:
        """`first`: by how much the number of a grid node is above that of its column in the PDF."""
        self.points, self.dtype = points, dtype
        self.contraction = Contraction(points.observables, _compute_scales(points), first, dtype, points.core)
        self.segments = self._build_segments()
        self.positive = [start for r in points.observables.positive for start, _ in self.contraction.select_ranges(r)]
        self.blocks = len(points.whitening.blocks)

    def _build_segments(self) -> list[_SegmentConstants]:
        segments: list[_SegmentConstants] = []
        begin = 0
        for segment in self.points.observables.segments:
            ranges = [self.contraction.select_ranges(rows) for rows in segment.rows]
            together = [ranges] if segment.operation != "NULL" else [[[one]] for one in ranges[0]]
            for tables in together:
                starts = tuple(tuple(start for start, _ in table) for table in tables)
                rows = slice(begin, begin := begin + sum(stop - start for start, stop in tables[0]))
                segments.append(self._build_segment(segment, starts, rows))
        return segments

    def _build_segment(self, segment: Segment, starts: tuple[tuple[int, ...], ...], rows: slice) -> _SegmentConstants:
        p, constant = self.points, partial(tf.constant, dtype=self.dtype)
        found = [(i, b) for i, b in enumerate(p.whitening.blocks) if b.rows.start <= rows.start < b.rows.stop]
        number, block = found[0] if found else (None, None)
        return _SegmentConstants(
            operation=segment.operation, tables=starts, factor=constant(p.factor[rows]), data=constant(p.data[:, rows]),
            central=constant(p.central[rows]),
            mask=tf.constant(p.training[:, rows]), inverse_weight=constant(1 / p.root_weight[rows]), block=number,
            u=None if block is None else constant(block.u[_shift(rows, -block.rows.start)]),
            denominator_scale=None if segment.denominator_scale is None else constant(segment.denominator_scale),
        )  # fmt: skip

    def compute_systematics(self, residuals: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """U^T e of each block, (R, k)."""
        sums: list[list[tf.Tensor]] = [[] for _ in range(self.blocks)]
        for e, segment in zip(residuals, self.segments, strict=True):
            if segment.block is not None:
                sums[segment.block].append(tf.matmul(e, segment.u))
        return [tf.add_n(s) for s in sums]


class ReplicaLosses:
    """Constants of the losses on the device, and the losses as functions of x f (R, 8, X)."""

    def __init__(self, card: Card, problem: Problem, loss_constants: LossConstants | None = None) -> None:
        """`loss_constants`: the form of the losses, by default every point on its own."""
        self.dtype = card.engine.precision
        width = np.dtype(self.dtype).type
        every = build_shared(problem, width)
        self.loss_constants = loss_constants or every
        # the nodes that some prediction or penalty uses; x f(1) = 0: a node there adds nothing
        nodes, first = problem.observables.nodes, problem.observables.first_node
        small = np.arange(min(card.integrability.nodes, first))
        self.x = problem.pack.x[np.concatenate([small, np.arange(first, nodes)])]
        self.integrable_nodes = card.integrability.nodes
        self.positive = problem.observables.has_positive
        self.weighted = bool((problem.root_weight != 1).any())
        self.all_residuals = _Residuals(every.points, first - len(small), self.dtype)
        self.step_residuals = self.all_residuals
        if self.loss_constants.folded is not None:
            self.step_residuals = _Residuals(self.loss_constants.points, first - len(small), self.dtype)
            self._prepare_folded(self.loss_constants, nodes, first, len(small))
        points = self.loss_constants.points
        # (2 R, k, k) for each block: the training halves of all replicas, then the validation halves
        halves = np.concatenate([points.training, ~points.training]).astype(np.float64)
        self.inverse_capacitances = [
            tf.constant(k, self.dtype) for k in points.whitening.compute_inverse_capacitances(halves)
        ]
        capacitances_all = every.points.whitening.compute_inverse_capacitances(np.ones((1, len(problem.central))))
        self.inverse_capacitances_all = [tf.constant(k[0], self.dtype) for k in capacitances_all]
        self.points = len(problem.central)
        self.points_training = problem.training.sum(axis=1)
        self.points_validation = (~problem.training).sum(axis=1)

    def _prepare_folded(self, loss_constants: LossConstants, nodes: int, first: int, small: int) -> None:
        folded = loss_constants.folded
        assert folded is not None
        assert loss_constants.restrict is not None
        restrict = loss_constants.restrict.reshape(len(loss_constants.restrict), len(FITTED), nodes)[..., first:]
        restrict = np.pad(restrict, [(0, 0), (0, 0), (small, 0)])
        self.restrict = tf.constant(restrict.reshape(len(restrict), -1), self.dtype)
        # of the training and of the validation halves: two products that run at the same time
        self.curvatures = [tf.constant(f, self.dtype) for f in np.split(folded.curvatures, 2)]
        self.centres = tf.constant(folded.centres, self.dtype)
        self.slopes = tf.constant(folded.slopes, self.dtype)
        self.constants = tf.constant(folded.constants, self.dtype)

    def __call__(self, pdf: tf.Tensor, weights: bool = True) -> Terms:
        """The losses that training and stopping need, with the sets' weights or, for people, without."""
        raw = self.step_residuals.contraction(pdf)
        residuals = [p.compute_residual(raw, p.data) for p in self.step_residuals.segments]
        if self.weighted and not weights:
            residuals = [e * p.inverse_weight for e, p in zip(residuals, self.step_residuals.segments, strict=True)]
        training, validation = self._split_chi2(pdf, residuals)
        hinge = [tf.reduce_sum(tf.nn.relu(-raw[start]), axis=1) for start in self.step_residuals.positive]
        watched = (one for one in self.step_residuals.segments if one.denominator_scale is not None)
        hinge += [one.compute_negative_denominators(raw) for one in watched]
        small = tf.gather(pdf, INTEGRABLE, axis=1)[..., : self.integrable_nodes]
        penalty = tf.reduce_sum(tf.abs(small), axis=[1, 2])
        return Terms(training, validation, tf.add_n(hinge or [tf.zeros_like(training)]), penalty)

    def compute_experimental_chi2(self, pdf: tf.Tensor) -> tf.Tensor:
        """chi2 (R) against the central values, over all points, without the sets' weights."""
        every, raw = self.all_residuals, self.all_residuals.contraction(pdf)
        residuals = [p.compute_residual(raw, p.central) * p.inverse_weight for p in every.segments]
        total = tf.add_n([tf.reduce_sum(e * e, axis=1) for e in residuals])
        for z, inverse in zip(every.compute_systematics(residuals), self.inverse_capacitances_all, strict=True):
            total -= tf.reduce_sum(z * tf.matmul(z, inverse), axis=1)
        return total

    def _split_chi2(self, pdf: tf.Tensor, residuals: Sequence[tf.Tensor]) -> HalfChi2:
        """chi2 of the training and of the validation points (R each); only the first has a gradient."""

        @tf.custom_gradient
        def split(pdf: tf.Tensor, *residuals: tf.Tensor) -> tuple[HalfChi2, object]:
            chi2 = self._compute_chi2(pdf, residuals)

            def pull_back(training: tf.Tensor, _: tf.Tensor) -> list[tf.Tensor]:
                return self._pull_back(chi2, 2 * training[:, None], pdf, residuals)

            return (chi2.training, chi2.validation), pull_back

        training, validation = split(pdf, *residuals)
        return training, validation

    def _compute_chi2(self, pdf: tf.Tensor, residuals: Sequence[tf.Tensor]) -> _SplitChi2:
        """Of each half, |m e|^2 - z K^-1 z with z = U^T m e of each block, and what the folded points add."""
        zero = tf.zeros([], self.dtype)
        pairs = zip(residuals, self.step_residuals.segments, strict=True)
        halves = [tf.concat([tf.where(p.mask, e, zero), tf.where(p.mask, zero, e)], axis=0) for e, p in pairs]
        total = tf.zeros([2 * pdf.shape[0]], self.dtype)
        for half in halves:
            total += tf.reduce_sum(half * half, axis=1)
        systematics = self.step_residuals.compute_systematics(halves)
        shifts = [tf.linalg.matvec(p, z) for p, z in zip(self.inverse_capacitances, systematics, strict=True)]
        for z, shift in zip(systematics, shifts, strict=True):
            total -= tf.reduce_sum(z * shift, axis=1)
        slope = None
        if self.loss_constants.folded is not None:
            slope, more = self._compute_folded_chi2(self.loss_constants.folded, pdf, systematics)
            total += more
        training, validation = tf.split(total, 2)
        return _SplitChi2(training, validation, shifts, slope)

    def _pull_back(
        self, chi2: _SplitChi2, up: tf.Tensor, pdf: tf.Tensor, residuals: Sequence[tf.Tensor]
    ) -> list[tf.Tensor]:  # fmt: skip
        """Gradients of the training half by x f and by each residual, m (e - U K^-1 z), times `up` (R, 1).

        K^-1 z is that of the forward pass, so that the K^-1 are read once a step.
        """
        corrections = [shift[: pdf.shape[0]] for shift in chi2.shifts]
        pdf_gradient = tf.zeros_like(pdf)
        folded = self.loss_constants.folded
        if folded is not None and chi2.folded_slope is not None:
            sizes = [self.restrict.shape[0], *(corrections[b].shape[1] for b in folded.coupled)]
            own, *couplings = tf.split(chi2.folded_slope[: pdf.shape[0]], sizes, axis=1)
            for b, one in zip(folded.coupled, couplings, strict=True):
                corrections[b] -= one
            pdf_gradient = up[:, :, None] * tf.reshape(tf.matmul(own, self.restrict), pdf.shape)
        gradients, zero = [pdf_gradient], tf.zeros([], self.dtype)
        for e, segment in zip(residuals, self.step_residuals.segments, strict=True):
            if segment.block is not None:
                e -= tf.matmul(corrections[segment.block], segment.u, transpose_b=True)
            gradients.append(up * tf.where(segment.mask, e, zero))
        return gradients

    def _compute_folded_chi2(
        self, folded: FoldedPoints, pdf: tf.Tensor, systematics: Sequence[tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Half the slope (2 R, K), and chi2 (2 R), of the folded points in K directions; training halves first."""
        small = tf.matmul(tf.reshape(pdf, [pdf.shape[0], -1]), self.restrict, transpose_b=True)
        couplings = zip(*(tf.split(systematics[b], 2) for b in folded.coupled), strict=True)
        both = [join_columns([small, *one]) for one in couplings] if folded.coupled else [small, small]
        away = tf.split(tf.concat(both, axis=0) - self.centres, 2)
        bent = [tf.linalg.matvec(curvature, d) for curvature, d in zip(self.curvatures, away, strict=True)]
        pull = tf.concat(bent, axis=0) + self.slopes
        return pull, tf.reduce_sum(tf.concat(away, axis=0) * (pull + self.slopes), axis=1) + self.constants


def compute_multiplier(initial: float, final: float, steps: int, step: tf.Tensor, dtype: str) -> tf.Tensor:
    """Geometric growth from `initial` at step 0 to `final` at the last of `steps`."""
    done = tf.cast(step, dtype) / max(steps - 1, 1)
    return tf.constant(initial, dtype) * tf.pow(tf.constant(final / initial, dtype), done)
