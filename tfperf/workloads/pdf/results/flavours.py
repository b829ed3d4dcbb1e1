"""From the flavours that a fit parametrises to those of the PDG numbering.

Evolution basis with four flavours, q+ = q + qbar, q- = q - qbar. Source: EKO, arXiv:2202.02338, and its documentation's
page "Flavor Space"; NNPDF4.0, arXiv:2109.02653, parametrises fits in it.

    sigma = u+ + d+ + s+ + c+      v   = u- + d- + s- + c-
    t3    = u+ - d+                v3  = u- - d-
    t8    = u+ + d+ - 2 s+         v8  = u- + d- - 2 s-
    t15   = u+ + d+ + s+ - 3 c+    v15 = u- + d- + s- - 3 c-

A fit has v15 = v at Q0: v - v15 = 4 c- = 0, charm is symmetric, c = cbar. Eight flavours remain in either basis.
"""

from collections.abc import Mapping

import numpy as np

from tfperf.arrays import AnyArray, Float64Array
from tfperf.workloads.pdf.results.record import EVOLUTION

FLAVOURS = ("g", "u", "ubar", "d", "dbar", "s", "sbar", "c")
# PDG Monte-Carlo numbers that each flavour stands for
PDG_IDS: Mapping[str, tuple[int, ...]] = {
    "g": (21,), "u": (2,), "ubar": (-2,), "d": (1,), "dbar": (-1,), "s": (3,), "sbar": (-3,), "c": (4, -4),
}  # fmt: skip
# q+ of each quark in units of (sigma, t3, t8, t15); q- is the same in (v, v3, v8, v15)
QUARKS: Mapping[str, tuple[float, float, float, float]] = {
    "u": (1 / 4, 1 / 2, 1 / 6, 1 / 12),
    "d": (1 / 4, -1 / 2, 1 / 6, 1 / 12),
    "s": (1 / 4, 0.0, -1 / 3, 1 / 12),
    "c": (1 / 4, 0.0, 0.0, -1 / 4),
}


def make_rotation() -> Float64Array:
    """The matrix (FLAVOURS, EVOLUTION): x f of a flavour = sum over e of rotation[f, e] x e."""
    rows = {"g": _make_row(g=1.0)}
    for quark, (singlet, three, eight, fifteen) in QUARKS.items():
        plus = _make_row(sigma=singlet, t3=three, t8=eight, t15=fifteen)
        minus = _make_row(v=singlet + fifteen, v3=three, v8=eight)  # v15 = v
        rows[quark], rows[f"{quark}bar"] = (plus + minus) / 2, (plus - minus) / 2
    return np.array([rows[f] for f in FLAVOURS])


def to_flavours(pdf: AnyArray) -> Float64Array:
    """x f of FLAVOURS (..., 8, X) from x f of EVOLUTION (..., 8, X), both at Q0."""
    flavours: Float64Array = np.einsum("fe,...ex->...fx", make_rotation(), pdf)
    return flavours


def _make_row(**entries: float) -> Float64Array:
    return np.array([entries.get(e, 0.0) for e in EVOLUTION])
