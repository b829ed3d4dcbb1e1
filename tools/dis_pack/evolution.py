"""Evolution operators from Q0 to Q on the grid X (50 nodes), with four flavours up to the bottom mass and five above.

Every matrix element is a Mellin inversion of (basis function)(N) x (kernel)(N). With one quadrature rule on EKO's
Talbot contour all of them share the anomalous dimensions, which makes this quicker than EKO's own adaptive one. At
next-to-leading order all densities are continuous at the bottom mass, so that it is crossed inside the inversion.
Source: EKO, arXiv:2202.02338 (kernels, contour, basis functions; truncated solution of the evolution equations).
"""

from typing import Any

import eko.mellin
import numba
import numpy as np
from eko import beta
from eko.couplings import Couplings
from eko.interpolation import InterpolatorDispatcher, XGrid, log_evaluate_Nx
from eko.kernels import non_singlet, singlet
from eko.quantities.couplings import CouplingEvolutionMethod, CouplingsInfo
from eko.quantities.heavy_quarks import QuarkMassScheme
from ekore.anomalous_dimensions.unpolarized.space_like import as1, as2
from ekore.harmonics import cache as harmonics

from dis_pack.parameters import ALPHAS, DEGREE, MBOTTOM, MCHARM, MTOP, MZ, Q0, X
from tfperf.arrays import Complex128Array, Float64Array

Operator = dict[tuple[str, str], Float64Array]  # (final, initial distribution) -> matrix [x', x]
ORDER = (2, 0)  # EKO's name for next-to-leading order in QCD, none in QED
ALPHA_EM = 0.007496252


def _compute_basis(n: Complex128Array, logx: Float64Array, areas: Float64Array, out: Complex128Array) -> None:
    for k, u in np.ndindex(n.shape):
        out[k, u] = log_evaluate_Nx(n[k, u], logx[k], areas)


def _compute_anomalous(n: Complex128Array, nf: int) -> tuple[Complex128Array, Complex128Array]:
    """Both orders at the Mellin moments n (X, U): singlet (X, U, 2, 2, 2); ns+ and ns- (2, X, U, 2)."""
    gs = np.zeros(n.shape + (2, 2, 2), np.complex128)  # noqa: RUF005 (numba does not unpack tuples)
    gns = np.zeros((2,) + n.shape + (2,), np.complex128)  # noqa: RUF005
    for k, u in np.ndindex(n.shape):
        c = harmonics.reset()
        gs[k, u, 0], gs[k, u, 1] = as1.gamma_singlet(n[k, u], c, nf), as2.gamma_singlet(n[k, u], nf, c)
        gns[:, k, u, 0] = as1.gamma_ns(n[k, u], c)
        gns[0, k, u, 1], gns[1, k, u, 1] = as2.gamma_nsp(n[k, u], nf, c), as2.gamma_nsm(n[k, u], nf, c)
    return gs, gns


def _compute_kernels(
    gs: Complex128Array, gns: Complex128Array, a1: float, a0: float, nf: int
) -> tuple[Complex128Array, Complex128Array]:
    """Truncated solutions from coupling a0 to a1: singlet (X, U, 2, 2); ns+ and ns- (2, X, U)."""
    betas, order = [beta.beta_qcd((2, 0), nf), beta.beta_qcd((3, 0), nf)], (2, 0)
    ks = np.zeros(gs.shape[:2] + (2, 2), np.complex128)  # noqa: RUF005
    kns = np.zeros(gns.shape[:3], np.complex128)
    for k, u in np.ndindex(gs.shape[:2]):
        ks[k, u] = singlet.eko_truncated(gs[k, u], a1, a0, betas, order)
        for i in range(2):
            kns[i, k, u] = non_singlet.eko_truncated(gns[i, k, u], a1, a0, betas, order)
    return ks, kns


# called, not written as decorators, which would hide the types
_compute_basis_fast, _compute_anomalous_fast, _compute_kernels_fast = (
    numba.njit(cache=True)(f) for f in (_compute_basis, _compute_anomalous, _compute_kernels)
)


class Evolution:
    """Evolution operators by Q2 [GeV2], computed when first asked for. `nodes`: quadrature nodes of half a contour."""

    def __init__(self, nodes: int = 192) -> None:
        logx = np.log(X[:-1])  # the densities vanish at x = 1
        z, w = np.polynomial.legendre.leggauss(nodes)
        t, w = 0.5 + 0.225 * (z + 1), 0.225 * w  # [0.5, 0.95]: half of the contour
        n = np.array([[eko.mellin.Talbot_path(u, 6.4 / (0.1 - lx), 1.0) for u in t] for lx in logx])
        jac = np.array([[eko.mellin.Talbot_jac(u, 6.4 / (0.1 - lx), 1.0) for u in t] for lx in logx])
        self.basis = np.zeros((*n.shape, len(X)), complex)  # (X - 1, nodes, X)
        for j, function in enumerate(InterpolatorDispatcher(XGrid(X), DEGREE)):
            moments = np.zeros_like(n)
            _compute_basis_fast(n, logx, function.areas_representation, moments)
            self.basis[:, :, j] = moments * jac * w * (-1j / np.pi)
        self.gamma = {nf: _compute_anomalous_fast(n, nf) for nf in (4, 5)}
        self.coupling = Couplings(
            CouplingsInfo(alphas=ALPHAS, alphaem=ALPHA_EM, ref=(MZ, 5)), ORDER, CouplingEvolutionMethod.EXPANDED,
            [MCHARM**2, MBOTTOM**2, MTOP**2], QuarkMassScheme.POLE, [1, 1, np.inf],
        )  # fmt: skip
        self.cache: dict[float, Operator] = {}

    def compute_a_s(self, q2: float, nf: int | None = None) -> float:
        """alpha_s / (4 pi) at Q2, with `nf` flavours: four up to the bottom mass, five above unless given."""
        return float(self.coupling.a_s(q2, nf_to=nf or (4 if q2 < MBOTTOM**2 else 5)))

    def get_operator(self, q2: float) -> Operator:
        """From Q0 to Q2; entries that are zero, and those of distributions that nothing reads, are left out."""
        if q2 not in self.cache:
            self.cache[q2] = self._compute_operator(q2)
        return self.cache[q2]

    def _compute_operator(self, q2: float) -> Operator:
        s, (plus, minus) = self._solve(Q0**2, min(q2, MBOTTOM**2), 4)
        t24 = s[..., 0, :]  # t24 = sigma and v24 = v below the bottom mass
        if q2 > MBOTTOM**2:
            s5, (plus5, minus5) = self._solve(MBOTTOM**2, q2, 5)
            s, plus, minus, t24 = s5 @ s, plus5 * plus, minus5 * minus, plus5[..., None] * t24
        rising, falling = self._invert(plus), self._invert(minus)
        found: Operator = {(f, f): rising for f in ("t3", "t8", "t15")}
        found |= {(f, f): falling for f in ("v", "v3", "v8", "v15")}  # at this order v evolves like ns-
        found |= {(f, "v"): falling for f in ("v24", "v35")}
        for j, b in enumerate(("sigma", "g")):
            found["sigma", b] = found["t35", b] = self._invert(s[..., 0, j])
            found["g", b], found["t24", b] = self._invert(s[..., 1, j]), self._invert(t24[..., j])
        return found

    def _solve(self, q2_from: float, q2_to: float, nf: int) -> tuple[Complex128Array, Complex128Array]:
        a1, a0 = self.compute_a_s(q2_to, nf), self.compute_a_s(q2_from, nf)
        solved: tuple[Complex128Array, Complex128Array] = _compute_kernels_fast(*self.gamma[nf], a1, a0, nf)
        return solved

    def _invert(self, kernel: Any) -> Float64Array:
        inverse = np.einsum("ku,kuj->kj", kernel, self.basis).real
        return np.append(inverse, np.zeros((1, len(X))), axis=0)
