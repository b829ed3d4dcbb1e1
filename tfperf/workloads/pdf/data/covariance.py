"""Covariance of the fitted points as C = diag(d) + S S^T, correlated within and across datasets.

N points of all sets in their order, K correlated columns. Source: the convention of the pack layout (pack.py); t0
prescription: Ball et al. 2010, arXiv:0912.2276 (multiplicative errors scale with a prediction, not with the data).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import h5py
import numpy as np

from tfperf.arrays import Float64Array
from tfperf.errors import PackError
from tfperf.results.file_limits import Budget
from tfperf.results.heaps import refuse_broken_heaps
from tfperf.results.reading import refuse_special
from tfperf.workloads.pdf.data import fields
from tfperf.workloads.pdf.data.limits import COVARIANCE_BYTES, LARGEST, SETS
from tfperf.workloads.pdf.data.pack import Dataset

COVMAT = fields.Field("float", ("M", "M"), COVARIANCE_BYTES, LARGEST**2)
LAYOUT = "HDF5 with covmat (M, M), sets (M) and rows (M)"
EXTRA = {"covmat": COVMAT, "sets": fields.Field("text", ("M",)), "rows": fields.Field("integer", ("M",))}


@dataclass(frozen=True)
class CovarianceMatrix:
    """diagonal (N), variances of independent errors; columns (N, K), one-sigma errors common to points."""

    diagonal: Float64Array
    columns: Float64Array

    def to_dense(self, rows: slice = slice(None)) -> Float64Array:
        """The matrix over the given rows: (n, n).

        >>> CovarianceMatrix(np.array([1.0, 4.0]), np.array([[2.0], [3.0]])).to_dense()
        array([[ 5.,  6.],
               [ 6., 13.]])
        """
        s = self.columns[rows]
        return np.diag(self.diagonal[rows]) + s @ s.T


def make_slices(datasets: Sequence[Dataset]) -> list[slice]:
    """Rows of each dataset among all points."""
    ends = np.cumsum([len(d.cv) for d in datasets])
    return [slice(int(e) - len(d.cv), int(e)) for d, e in zip(datasets, ends, strict=True)]


def _scale_errors(dataset: Dataset, t0: Float64Array | None) -> Float64Array:
    """Systematic errors (n, k), the multiplicative ones scaled to the t0 predictions."""
    if t0 is None or not dataset.sys_is_mult.any():
        return dataset.sys
    return np.where(dataset.sys_is_mult, dataset.sys * (t0 / dataset.cv)[:, None], dataset.sys)


def make_column_keys(dataset: Dataset) -> tuple[tuple[str, ...] | None, ...]:
    """One key per systematic: equal keys of two sets are one error; None for independent ones."""
    return _make_keys(dataset.name, dataset.sys_names)


@lru_cache(SETS)  # each replica's draw asks for them
def _make_keys(dataset: str, names: tuple[str, ...]) -> tuple[tuple[str, ...] | None, ...]:
    seen: dict[str, int] = {}
    keys: list[tuple[str, ...] | None] = []
    for name in names:
        number = seen[name] = seen.get(name, -1) + 1
        if name.endswith("UNCORR"):
            keys.append(None)
        elif name.endswith("CORR"):
            keys.append((dataset, name, str(number)))
        else:
            keys.append(("", name, str(number)))
    return tuple(keys)


def compute_covariance(datasets: Sequence[Dataset], t0: Sequence[Float64Array] | None = None) -> CovarianceMatrix:
    """Covariance of the published errors; with t0 (one (n) array per set) multiplicative ones scale with it."""
    columns: dict[tuple[str, ...], Float64Array] = {}
    where = make_slices(datasets)
    total = where[-1].stop if where else 0
    diagonal = np.concatenate([d.stat**2 for d in datasets])
    for i, (dataset, rows) in enumerate(zip(datasets, where, strict=True)):
        scaled = _scale_errors(dataset, None if t0 is None else t0[i])
        for key, error in zip(make_column_keys(dataset), scaled.T, strict=True):
            if key is None:
                diagonal[rows] += error**2
            else:
                columns.setdefault(key, np.zeros(total))[rows] = error
    return CovarianceMatrix(diagonal, np.stack(list(columns.values()), 1) if columns else np.zeros((total, 0)))


def add_extra(covariance: CovarianceMatrix, path: Path, datasets: Sequence[Dataset]) -> CovarianceMatrix:
    """The covariance plus a positive semidefinite one from a file, as columns of its eigenvectors.

    File as in `read_fitted_extra`. Raises: PackError.
    """
    factor = _factorise(read_fitted_extra(path, datasets), path)
    return CovarianceMatrix(covariance.diagonal, np.hstack([covariance.columns, factor]))


def compute_extra_root(path: Path, datasets: Sequence[Dataset]) -> Float64Array:
    """The symmetric square root (N, N) of the covariance of a file: it is one, whatever signs eigenvectors have.

    File as in `read_fitted_extra`. Raises: PackError.
    """
    values, vectors = _find_eigenvectors(read_fitted_extra(path, datasets), path)
    root: Float64Array = (vectors * np.sqrt(values)) @ vectors.T
    return root


def read_fitted_extra(path: Path, datasets: Sequence[Dataset]) -> Float64Array:
    """A covariance from a file, of the fitted points (N, N).

    File: HDF5 with `covmat` (M, M) and `sets` (M) and `rows` (M): the dataset's name and the point's row in the
    published set (`cuts` of the pack) for each line. Every fitted point must be there, others are
    ignored. Raises: PackError for a file that is not so or too large (limits.py), and a matrix that is not symmetric.
    """
    covmat, names, numbers = _read_extra(path)
    lines = {key: i for i, key in enumerate(zip(names, numbers, strict=True))}
    if len(lines) != len(covmat):
        raise PackError(f"{path}: rows: {len(lines)} distinct points in {len(covmat)} lines; each must be there once")
    if np.abs(covmat - covmat.T).max(initial=0) > 1e-10 * np.abs(covmat).max(initial=0):
        raise PackError(f"{path}: covmat: must be symmetric")
    missing = [(d.name, r) for d in datasets for r in d.cuts.tolist() if (d.name, r) not in lines]
    if missing:
        name, row = missing[0]
        there = sorted(set(names))
        hint = "" if name in there else f"; its sets are others than the card's{fields.suggest_nearest(name, there)}"
        raise PackError(f"{path}: {len(missing)} fitted points are not there, the first is {name} row {row}{hint}")
    index = [lines[d.name, r] for d in datasets for r in d.cuts.tolist()]
    fitted: Float64Array = covmat[np.ix_(index, index)]
    return fitted


def _read_extra(path: Path) -> tuple[Float64Array, list[str], list[int]]:
    """covmat (M, M), sets (M) and rows (M) of a file, held against each other and limits before they are read."""
    try:
        refuse_special(path)
        with h5py.File(path, "r") as file:
            refuse_broken_heaps(file, path)
            if not set(EXTRA) <= set(file):
                raise PackError(f"{path}: has no {' and no '.join(sorted(set(EXTRA) - set(file)))}; must be {LAYOUT}")
            faults = fields.Faults(path, Budget(file))
            arrays = {name: fields.get_own_array(file, name, name, faults) for name in EXTRA}
            rows_of = arrays["rows"]
            sizes = {} if rows_of is None or rows_of.ndim != 1 else {"M": len(rows_of)}
            covmat, sets, rows = (
                None if a is None or not fields.has_shape_and_type(a, name, EXTRA[name], sizes, faults)
                else fields.read_values(a, name, EXTRA[name], faults)
                for name, a in arrays.items()
            )  # fmt: skip
    except fields.DAMAGE as error:
        raise PackError(f"{path}: cannot be read ({error}); must be {LAYOUT}") from None
    if covmat is None or sets is None or rows is None:
        raise PackError(*faults.lines)
    return covmat.astype(np.float64), sets.tolist(), rows.tolist()


def _factorise(matrix: Float64Array, path: Path) -> Float64Array:
    """Columns V with V V^T = matrix up to rounding; PackError for a matrix with negative eigenvalues."""
    values, vectors = _find_eigenvectors(matrix, path)
    columns: Float64Array = vectors * np.sqrt(values)
    return columns


def _find_eigenvectors(matrix: Float64Array, path: Path) -> tuple[Float64Array, Float64Array]:
    """Eigenvalues (K) above rounding, and their vectors (N, K); PackError for a matrix with negative ones."""
    values, vectors = np.linalg.eigh(matrix)
    rounding = len(values) * np.finfo(np.float64).eps * np.abs(values).max(initial=0)
    if values.min(initial=0) < -1e3 * rounding:
        raise PackError(f"{path}: covmat: eigenvalue {values.min():.3g}; must be positive semidefinite")
    keep = values > rounding
    return values[keep], vectors[:, keep]
