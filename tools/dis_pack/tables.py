"""Forward tables of deep-inelastic observables: fk = C(n; x', i) E(x', i <- x, f), coefficients times evolution.

Zero-mass coefficients of five flavours plus, for charm and bottom, the mass correction of first order, FFNS - FFN0
(the massive result minus its massless limit); below its mass the bottom quark is massive alone. This is FONLL-A
(arXiv:1001.2312) with fitted charm and without damping. Source of the coefficients: yadism, arXiv:2401.15187.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import yadism.log
from eko import basis_rotation
from eko.interpolation import InterpolatorDispatcher, XGrid
from yadism.runner import Runner

from dis_pack.evolution import Evolution
from dis_pack.parameters import ACTIVE, DEGREE, MBOTTOM, MCHARM, THEORY, X
from tfperf.arrays import Float32Array, Float64Array
from tfperf.workloads.pdf.data.validate import FLAVOURS  # in the order of EKO's evolution basis

warnings.filterwarnings("ignore", module="yadism")  # scipy's quad: round-off in the last digits
yadism.log.silent_mode = True

Tables = dict[str, Float32Array]
Orders = dict[int, Float64Array]  # by order in alpha_s / (4 pi)
TARGETS = {"P": "proton", "D": "isoscalar"}
HEAVY = (("charm", 3, MCHARM), ("bottom", 4, MBOTTOM))


@dataclass(frozen=True)
class Observable:
    """What yadism computes; `charge` keeps one quark charge (positivity), `target` D/P is a ratio of two tables."""

    name: str
    process: str
    projectile: str
    target: str
    charge: str | None = None
    target_mass: int = 0  # yadism's TMC: 2 is the approximate formula, within 1 % of the exact one


@dataclass(frozen=True)
class Density:
    """x f(x, Q2) of one parton itself, by its PDG number: 1 to 5 d u s c b, negative for antiquarks, 21 the gluon."""

    pid: int


def compute_tables(observable: Observable | Density, kin: Float64Array, evolution: Evolution) -> Tables:
    """fk, or fk_num and fk_den for a ratio: each (N, X, F), F of ACTIVE; kin (N, 3): x, Q2 [GeV2], y."""
    if isinstance(observable, Density):
        density = _evolve(_interpolate(observable.pid, kin[:, 0]), kin[:, 1].tolist(), evolution)
        return {"fk": density.astype(np.float32)}
    targets = observable.target.split("/")
    names = ("fk",) if len(targets) == 1 else ("fk_num", "fk_den")
    found, scales = {}, kin[:, 1].tolist()
    for name, target in zip(names, targets, strict=True):
        c = _compute_coefficients(observable, kin, [evolution.compute_a_s(q2) for q2 in scales], TARGETS[target])
        found[name] = _evolve(c, scales, evolution).astype(np.float32)
    return found


def _interpolate(pid: int, x: Float64Array) -> Float64Array:
    """(N, 14 flavours, X): what makes x f at x (N) of f at the nodes, interpolated in x f, which is the flatter one."""
    out = np.zeros((len(x), len(basis_rotation.flavor_basis_pids), len(X)))
    basis = InterpolatorDispatcher(XGrid(X), DEGREE).get_interpolation(x)
    out[:, basis_rotation.flavor_basis_pids.index(pid)] = basis * X
    return out


def _compute_coefficients(observable: Observable, kin: Float64Array, a_s: list[float], target: str) -> Float64Array:
    """(N, 14 flavours, X): zero-mass coefficients plus heavy-quark mass corrections."""
    kind, flavour = observable.name.split("_")
    every = np.arange(len(kin))
    # "light" is u, d, s: in the zero-mass scheme it would include charm
    massless = ("FFNS", 3) if flavour == "light" else ("ZM-VFNS", 5)
    parts = [(1, *massless, observable.name, every)]
    for name, nf, mass in HEAVY:
        if observable.charge or flavour not in ("total", name) or (observable.process, name) == ("CC", "bottom"):
            continue
        above = every[kin[:, 1] > mass**2]  # FFN0 is what the zero-mass calculation already contains
        parts += [(1, "FFNS", nf, f"{kind}_{name}", every), (-1, "FFN0", nf, f"{kind}_{name}", above)]
    out = np.zeros((len(kin), len(basis_rotation.flavor_basis_pids), len(X)))
    for sign, scheme, nf, name, rows in parts:
        for n, orders in zip(rows, _run_yadism(observable, name, scheme, nf, kin[rows], target), strict=True):
            out[n] += sign * sum(a_s[n] ** k * v for k, v in orders.items())
    return out


def _run_yadism(
    observable: Observable, name: str, scheme: str, nf: int, kin: Float64Array, target: str
) -> list[Orders]:
    """For each point the coefficients (14 flavours, X)."""
    if not len(kin):
        return []
    card: dict[str, Any] = {
        "interpolation_xgrid": X.tolist(), "interpolation_is_log": True, "interpolation_polynomial_degree": DEGREE,
        "prDIS": observable.process, "ProjectileDIS": observable.projectile, "TargetDIS": target,
        "PolarizationDIS": 0.0, "PropagatorCorrection": 0.0, "NCPositivityCharge": observable.charge,
        "observables": {name: [{"x": x, "Q2": q2, "y": y} for x, q2, y in kin.tolist()]},
    }  # fmt: skip
    theory = {**THEORY, "FNS": scheme, "NfFF": nf, "TMC": observable.target_mass}
    results = Runner(theory, card).observables[name].get_result()
    # keys are powers of (alpha_s, alpha, log xi_R, log xi_F): no scale variations
    return [{order[0]: v for order, (v, _) in r.orders.items() if not any(order[1:])} for r in results]


def _evolve(coefficients: Float64Array, scales: list[float], evolution: Evolution) -> Float64Array:
    """(N, X, F) for x f(x, Q0), from coefficients (N, 14 flavours, X) at the scales Q2 [GeV2]."""
    to_evolution = np.linalg.inv(basis_rotation.rotate_flavor_to_evolution)
    out = np.zeros((len(scales), len(X), len(ACTIVE)))
    for n, q2 in enumerate(scales):
        c = dict(zip(FLAVOURS, np.einsum("px,pe->ex", coefficients[n], to_evolution), strict=True))
        for (final, initial), matrix in evolution.get_operator(q2).items():
            out[n, :, ACTIVE.index(initial)] += c[final] @ matrix / X
    return out
