"""Monte-Carlo replicas of the measurements.

Additive errors shift a value, multiplicative ones are factors; errors of one name shift all their points together,
across datasets. Uncertainties of the theory are additive. Source: NNPDF, arXiv:0808.1231, and NNPDF4.0,
arXiv:2109.02653; of the theory, arXiv:1906.10698.
"""

from collections.abc import Sequence

import numpy as np

from tfperf.arrays import Float64Array
from tfperf.errors import PackError
from tfperf.workloads.pdf.data.covariance import make_column_keys, make_slices
from tfperf.workloads.pdf.data.pack import Dataset

TRIES = 1000


def _sample_once(
    datasets: Sequence[Dataset], rng: np.random.Generator, theory_root: Float64Array | None
) -> Float64Array:
    """One fluctuation (N) around the central values."""
    common: dict[tuple[str, ...], float] = {}
    shifts, factors = [], []
    for dataset in datasets:
        shift = dataset.stat * rng.standard_normal(len(dataset.cv))
        factor = np.ones(len(dataset.cv))
        for key, error, mult in zip(make_column_keys(dataset), dataset.sys.T, dataset.sys_is_mult, strict=True):
            if key is None:
                z: Float64Array | float = rng.standard_normal(len(dataset.cv))
            elif key in common:
                z = common[key]
            else:
                z = common[key] = float(rng.standard_normal())
            if mult:
                factor *= 1 + error / dataset.cv * z
            else:
                shift = shift + error * z
        shifts.append(dataset.cv + shift)
        factors.append(factor)
    values = np.concatenate(shifts)
    if theory_root is not None:  # drawn last, so that the rest is what it is without
        values = values + theory_root @ rng.standard_normal(len(values))
    return values * np.concatenate(factors)


def may_be_negative(dataset: Dataset) -> bool:
    """Asymmetries may be negative, cross sections, structure functions and their ratios may not."""
    return dataset.operation == "ASY"


def sample_pseudodata(
    datasets: Sequence[Dataset], rng: np.random.Generator, theory_root: Float64Array | None = None
) -> Float64Array:
    """Pseudo-data (N) around the central values; a draw with a negative cross section is drawn again as a whole.

    theory_root (N, N): square root of the covariance of the theory's uncertainties, None for those of the data alone.
    PackError when a thousand draws each hold a negative cross section.
    """
    # a point that is negative before any noise cannot be asked to be positive after it
    must = np.concatenate([(d.cv > 0) & (not may_be_negative(d)) for d in datasets])
    for _ in range(TRIES):
        values = _sample_once(datasets, rng, theory_root)
        if not (values[must] < 0).any():
            return values
    bad = np.flatnonzero(must & (values < 0))[0]
    name = next(d.name for d, s in zip(datasets, make_slices(datasets), strict=True) if s.start <= bad < s.stop)
    raise PackError(f"{name}: {TRIES} draws in a row had a negative cross section; its errors are too large to sample")
