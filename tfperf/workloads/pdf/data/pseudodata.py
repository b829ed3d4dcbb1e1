"""Monte-Carlo replicas of the measurements.

Additive errors shift a value, multiplicative ones are factors; errors of one name shift all their points together,
across datasets. Source: NNPDF, arXiv:0808.1231, and NNPDF4.0, arXiv:2109.02653.
"""

from collections.abc import Sequence

import numpy as np

from tfperf.arrays import Float64Array
from tfperf.errors import PackError
from tfperf.workloads.pdf.data.covariance import make_column_keys, make_slices
from tfperf.workloads.pdf.data.pack import Dataset

TRIES = 1000


def _sample_once(datasets: Sequence[Dataset], rng: np.random.Generator) -> Float64Array:
    """One fluctuation (N) around the central values."""
    common: dict[tuple[str, ...], float] = {}
    values = []
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
        values.append((dataset.cv + shift) * factor)
    return np.concatenate(values)


def may_be_negative(dataset: Dataset) -> bool:
    """Asymmetries may be negative, cross sections, structure functions and their ratios may not."""
    return dataset.operation == "ASY"


def sample_pseudodata(datasets: Sequence[Dataset], rng: np.random.Generator) -> Float64Array:
    """Pseudo-data (N) around the central values; a draw with a negative cross section is drawn again as a whole.

    PackError when a thousand draws each hold a negative cross section.
    """
    # a point that is negative before any noise cannot be asked to be positive after it
    must = np.concatenate([(d.cv > 0) & (not may_be_negative(d)) for d in datasets])
    for _ in range(TRIES):
        values = _sample_once(datasets, rng)
        if not (values[must] < 0).any():
            return values
    bad = np.flatnonzero(must & (values < 0))[0]
    name = next(d.name for d, s in zip(datasets, make_slices(datasets), strict=True) if s.start <= bad < s.stop)
    raise PackError(f"{name}: {TRIES} draws in a row had a negative cross section; its errors are too large to sample")
