"""The strong coupling on a grid of scales, as the metadata of a PDF set tells it.

Source: Particle Data Group, Review of Particle Physics (Prog. Theor. Exp. Phys. 2022, 083C01), section 9.1: beta
function in eq. 9.3, matching at pole masses in eq. 9.4.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from tfperf.arrays import Float64Array

FLAVOURS = 5  # at the Z mass
Q_MAX = 1e4  # GeV
KNOTS = 100  # a segment; LHAPDF interpolates with errors below 5e-5 of alpha_s at its ends, 1e-6 between


def compute_alpha_s(
    alpha_mz: float, mz: float, q0: float, masses: Sequence[float], order: int
) -> tuple[Float64Array, Float64Array]:
    """Scales Q [GeV] from `q0` to 10 TeV and alpha_s(Q), both (K), run from the Z mass; `order` 0: LO, 1: NLO, 2: NNLO.

    At each of the pole `masses` [GeV] above q0, the heaviest that of the fifth quark, one flavour decouples; its scale
    appears twice, with the coupling below and above it.
    """
    import scipy.integrate

    def run(alpha: float, start: float, scales: Float64Array, flavours: int) -> Float64Array:
        """alpha_s at `scales`, which lead away from `start` in one direction."""
        b = _compute_beta(flavours)[: order + 1]
        log = np.log(np.append(start, scales) ** 2)
        solution = scipy.integrate.solve_ivp(
            lambda _, a: -sum(bi * a ** (i + 2) for i, bi in enumerate(b)),
            (log[0], log[-1]), [alpha], t_eval=np.clip(log[1:], min(log), max(log)), rtol=1e-10, atol=1e-13,
        )  # fmt: skip
        return np.asarray(solution.y[0])

    edges = [*sorted((m for m in masses if m > q0), reverse=True), q0]
    top = edges[0]
    alpha = run(alpha_mz, mz, np.array([top]), FLAVOURS)[-1]
    scales = [np.geomspace(top, Q_MAX, KNOTS)]
    values = [np.append(alpha, run(alpha, top, scales[0][1:], FLAVOURS))]
    for flavours, (upper, lower) in enumerate(pairwise(edges), start=1):
        alpha *= 1 - (7 / 24 * (alpha / np.pi) ** 2 if order > 1 else 0.0)
        falling = np.geomspace(upper, lower, KNOTS)
        below = np.append(alpha, run(alpha, upper, falling[1:], FLAVOURS - flavours))
        scales, values = [falling[::-1], *scales], [below[::-1], *values]
        alpha = below[-1]
    return np.concatenate(scales), np.concatenate(values)


def _compute_beta(nf: int) -> tuple[float, float, float]:
    """d alpha_s / d ln Q^2 = -(b0 alpha_s^2 + b1 alpha_s^3 + b2 alpha_s^4)."""
    b0 = (33 - 2 * nf) / (12 * np.pi)
    b1 = (153 - 19 * nf) / (24 * np.pi**2)
    b2 = (2857 - 5033 / 9 * nf + 325 / 27 * nf**2) / (128 * np.pi**3)
    return b0, b1, b2
