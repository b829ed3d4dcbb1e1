from fractions import Fraction

import numpy as np

from tests.make_result import make_result
from tfperf.workloads.pdf.results.flavours import FLAVOURS, PDG_IDS, make_rotation, to_flavours
from tfperf.workloads.pdf.results.record import EVOLUTION


def evolution_of(f):
    """The definitions themselves, from the nine partons: an independent way to the inverse of `make_rotation`."""
    q = {**f, "cbar": f["c"]}
    plus = {k: q[k] + q[f"{k}bar"] for k in "udsc"}
    minus = {k: q[k] - q[f"{k}bar"] for k in "udsc"}
    u, d, s, c = (plus[k] for k in "udsc")
    um, dm, sm, cm = (minus[k] for k in "udsc")
    assert um + dm + sm - 3 * cm == um + dm + sm + cm  # v15 = v
    return {
        "sigma": u + d + s + c, "g": q["g"], "v": um + dm + sm + cm, "v3": um - dm, "v8": um + dm - 2 * sm,
        "t3": u - d, "t8": u + d - 2 * s, "t15": u + d + s - 3 * c,
    }  # fmt: skip


def test_rotation_undoes_the_definitions():
    definitions = np.empty((8, 8))
    for i, name in enumerate(FLAVOURS):
        unit = {f: Fraction(int(f == name)) for f in FLAVOURS}
        definitions[:, i] = [float(evolution_of(unit)[e]) for e in EVOLUTION]
    # entries are multiples of 1/24, sums of at most 8 products of numbers below 4
    np.testing.assert_allclose(make_rotation() @ definitions, np.eye(8), rtol=0, atol=8 * 4 * 2**-52)
    np.testing.assert_allclose(definitions @ make_rotation(), np.eye(8), rtol=0, atol=8 * 4 * 2**-52)


def test_sum_rules_of_the_proton_count_its_quarks():
    # integrals of x f / x: v = 3, v3 = 1, v8 = 3 mean two up, one down, no strange valence quarks
    integral = {"sigma": 7.0, "g": 0.0, "v": 3.0, "v3": 1.0, "v8": 3.0, "t3": 1.0, "t8": 2.0, "t15": 1.0}
    f = dict(zip(FLAVOURS, make_rotation() @ [integral[e] for e in EVOLUTION], strict=True))
    np.testing.assert_allclose([f["u"] - f["ubar"], f["d"] - f["dbar"], f["s"] - f["sbar"]], [2, 1, 0], atol=1e-14)


def test_momentum_is_kept():
    result = make_result(failed=0)
    f = dict(zip(FLAVOURS, np.moveaxis(to_flavours(result.pdf), 1, 0), strict=True))
    total = sum(f[k] for k in FLAVOURS) + f["c"]
    np.testing.assert_allclose(total, result.pdf[:, 0] + result.pdf[:, 1], rtol=1e-13, atol=1e-14)
    np.testing.assert_array_equal(f["g"], result.pdf[:, 1])
    assert to_flavours(result.pdf[0]).shape == (8, len(result.x))


def test_every_parton_has_one_number():
    ids = [i for f in FLAVOURS for i in PDG_IDS[f]]
    assert sorted(ids) == [-4, -3, -2, -1, 1, 2, 3, 4, 21]
