"""Closure tests: measurements replaced by a known law, so that the truth of the fit is known.

Levels as in NNPDF3.0, arXiv:1410.8849, section 4: level 0 has no noise at all, level 2 the noise of the experiment
and of each replica.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tfperf.arrays import Float64Array
from tfperf.workloads.pdf.data.pack import Dataset
from tfperf.workloads.pdf.data.pseudodata import sample_pseudodata


def compute_toy_pdf(x: Float64Array) -> Float64Array:
    """Les Houches toy PDFs x f(x) of the fitted flavours (8, X), with a little charm, momentum sum 1.

    Source: arXiv:hep-ph/0204316, table 1; charm is 5 % of ubar + dbar each, and its momentum is taken from the gluon.
    """
    u_valence = 5.107200 * x**0.8 * (1 - x) ** 3
    d_valence = 3.064320 * x**0.8 * (1 - x) ** 4
    d_bar = 0.1939875 * x**-0.1 * (1 - x) ** 6
    u_bar = (1 - x) * d_bar
    s_plus, c_plus = 0.4 * (u_bar + d_bar), 0.1 * (u_bar + d_bar)
    u_plus, d_plus = u_valence + 2 * u_bar, d_valence + 2 * d_bar
    sigma = u_plus + d_plus + s_plus + c_plus
    gluon = _GLUON * x**-0.1 * (1 - x) ** 5
    valence = u_valence + d_valence
    t8 = u_plus + d_plus - 2 * s_plus
    t15 = u_plus + d_plus + s_plus - 3 * c_plus
    return np.stack([sigma, gluon, valence, u_valence - d_valence, valence, u_plus - d_plus, t8, t15])


def _compute_gluon_norm() -> float:
    """Coefficient of the toy gluon for which the momenta sum to 1, from Beta functions."""
    from math import gamma

    def integrate(a: float, b: float) -> float:
        return gamma(a + 1) * gamma(b + 1) / gamma(a + b + 2)  # of x^a (1-x)^b over (0, 1)

    sea = 0.1939875 * (integrate(-0.1, 6) + integrate(-0.1, 7))
    quarks = 5.107200 * integrate(0.8, 3) + 3.064320 * integrate(0.8, 4) + (2 + 0.4 + 0.1) * sea
    return (1 - quarks) / integrate(-0.1, 5)


_GLUON = _compute_gluon_norm()


def replace_data(
    datasets: Sequence[Dataset], truth: Sequence[Float64Array], rng: np.random.Generator | None,
    theory_root: Float64Array | None = None,
) -> tuple[Dataset, ...]:  # fmt: skip
    """The sets as an experiment would publish them if `truth` (one (n) array per set) were nature's law.

    With a generator one draw of the noise is added, that of the theory as in `sample_pseudodata`. Relative
    multiplicative errors stay what they are, and the t0 predictions become the truth.
    """
    at_truth = [_rescale_dataset(d, t, t) for d, t in zip(datasets, truth, strict=True)]
    if rng is None:
        return tuple(at_truth)
    values = np.split(sample_pseudodata(at_truth, rng, theory_root), np.cumsum([len(t) for t in truth])[:-1])
    return tuple(_rescale_dataset(d, v, t) for d, v, t in zip(at_truth, values, truth, strict=True))


def _rescale_dataset(dataset: Dataset, cv: Float64Array, t0: Float64Array) -> Dataset:
    scale = np.where(dataset.sys_is_mult, (cv / dataset.cv)[:, None], 1.0)
    return replace(dataset, cv=cv, sys=dataset.sys * scale, t0=t0)
