"""Monte-Carlo replicas of the measurements.

Additive errors shift a value, multiplicative ones are factors; errors of one name shift all their points together,
across datasets. Source: NNPDF, arXiv:0808.1231, and NNPDF4.0, arXiv:2109.02653.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tfperf.data.covariance import column_keys, slices
from tfperf.data.pack import Dataset
from tfperf.errors import PackError

Array = NDArray[np.float64]
TRIES = 1000


def _draw(datasets: Sequence[Dataset], centre: Sequence[Array], rng: np.random.Generator) -> Array:
    """One fluctuation (N) around the centre (one (n) array per set)."""
    common: dict[tuple[str, ...], float] = {}
    values = []
    for dataset, cv in zip(datasets, centre, strict=True):
        shift = dataset.stat * rng.standard_normal(len(cv))
        factor = np.ones(len(cv))
        for key, error, mult in zip(column_keys(dataset), dataset.sys.T, dataset.sys_is_mult, strict=True):
            if key is None:
                z: Array | float = rng.standard_normal(len(cv))
            elif key in common:
                z = common[key]
            else:
                z = common[key] = float(rng.standard_normal())
            if mult:
                factor *= 1 + error / dataset.cv * z
            else:
                shift = shift + error * z
        values.append((cv + shift) * factor)
    return np.concatenate(values)


def may_be_negative(dataset: Dataset) -> bool:
    """Asymmetries may be negative, cross sections, structure functions and their ratios may not."""
    return dataset.operation == "ASY"


def sample(datasets: Sequence[Dataset], rng: np.random.Generator, centre: Sequence[Array] | None = None) -> Array:
    """Pseudo-data (N) around the central values, or around `centre`; negative cross sections are drawn again.

    PackError when a thousand draws each hold a negative cross section.
    """
    centre = [d.cv for d in datasets] if centre is None else centre
    # a point that is negative before any noise cannot be asked to be positive after it
    must = np.concatenate([(c > 0) & (not may_be_negative(d)) for d, c in zip(datasets, centre, strict=True)])
    for _ in range(TRIES):
        values = _draw(datasets, centre, rng)
        if not (values[must] < 0).any():
            return values
    bad = np.flatnonzero(must & (values < 0))[0]
    name = next(d.name for d, rows in zip(datasets, slices(datasets), strict=True) if rows.start <= bad < rows.stop)
    raise PackError(f"{name}: {TRIES} draws in a row had a negative cross section; its errors are too large to sample")
