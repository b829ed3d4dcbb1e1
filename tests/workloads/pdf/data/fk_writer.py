"""Writes small PineAPPL FK tables, and says what PineAPPL itself predicts from them."""

import json

import numpy as np

EVOLUTION = (22, 100, 21, 200, 203, 208, 215, 224, 235, 103, 108, 115, 124, 135)  # PineAPPL's numbers of all flavours
# weights of u, d, s, c (their sums or differences with the antiquarks) in each combination
COMBINATIONS = {
    0: (1, 1, 1, 1),
    3: (1, -1, 0, 0),
    8: (1, 1, -2, 0),
    15: (1, 1, 1, -3),
    24: (1, 1, 1, 1),
    35: (1, 1, 1, 1),
}
QUARKS = (2, 1, 3, 4)


def grid_nodes(count):
    """The last `count` nodes of NNPDF4.0's 50, by bisection of 5 (1 - x) - log x = y."""
    ys = np.linspace(5 * (1 - 2e-7) - np.log(2e-7), 0, 50)[-count:]
    low, high = np.full(count, 1e-8), np.full(count, 1.0)
    for _ in range(200):
        middle = np.sqrt(low * high)
        above = 5 * (1 - middle) - np.log(middle) > ys
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.sqrt(low * high)


def write_table(
    path, x, channels, values, widths=None, q0=1.65, hadrons=(2212,), polarised=False, evolution=True, theory=None
):
    """values: (bins, channels, X) or (bins, channels, X, X), as PineAPPL keeps them; widths: (bins)."""
    from pineappl.boc import BinsWithFillLimits, Channel, Kinematics, Order, ScaleFuncForm, Scales
    from pineappl.convolutions import Conv, ConvType
    from pineappl.fk_table import FkTable
    from pineappl.grid import Grid
    from pineappl.interpolation import Interp, InterpolationMethod, MappingMethod, ReweightingMethod
    from pineappl.pids import PidBasis
    from pineappl.subgrid import ImportSubgridV1

    def axis(low, high, mapping):
        return Interp(low, high, 40, 3, ReweightingMethod.NoReweight, mapping, InterpolationMethod.Lagrange)

    widths = np.ones(len(values)) if widths is None else widths
    limits = [[(float(b), float(b + 1))] for b in range(len(values))]
    grid = Grid(
        PidBasis.Evol if evolution else PidBasis.Pdg,
        [Channel([(list(numbers), 1.0)]) for numbers in channels],
        [Order(0, 0, 0, 0, 0)],
        BinsWithFillLimits.from_limits_and_normalizations(limits, list(widths)),
        [Conv(ConvType(polarized=polarised, time_like=False), h) for h in hadrons],
        [axis(1.0, 1e4, MappingMethod.ApplGridH0)] + [axis(2e-7, 1.0, MappingMethod.ApplGridF2)] * len(hadrons),
        [Kinematics.Scale(0)] + [Kinematics.X(k) for k in range(len(hadrons))],
        Scales(ScaleFuncForm.Scale(0), ScaleFuncForm.Scale(0), ScaleFuncForm.NoScale(0)),
    )  # fmt: skip
    for b in range(len(values)):
        for c in range(len(channels)):
            nodes = [[q0**2], *[list(x)] * len(hadrons)]
            grid.set_subgrid(0, b, c, ImportSubgridV1(np.ascontiguousarray(values[b, c][None]), nodes).into())
    if theory is not None:
        grid.set_metadata("theory", json.dumps(theory))
    FkTable(grid).write_lz4(str(path))


def xf(number, x):
    """A made-up proton, x f of a PDG number: no two flavours alike, four quarks."""
    if abs(number) in (5, 6):
        return 0.0 * x
    kind = {21: 11, 22: 13}.get(number, number)
    return (1 + 0.3 * kind + 0.05 * kind**2) * x ** (0.2 + 0.01 * (kind + 4)) * (1 - x) ** 2


def xf_evolution(x):
    """The same proton by PineAPPL's numbers of the evolution basis."""
    plus = [xf(q, x) + xf(-q, x) for q in QUARKS]
    minus = [xf(q, x) - xf(-q, x) for q in QUARKS]
    found = {21: xf(21, x), 22: xf(22, x)}
    for number, weights in COMBINATIONS.items():
        found[100 + number] = sum(w * q for w, q in zip(weights, plus, strict=True))
        found[200 + number] = sum(w * q for w, q in zip(weights, minus, strict=True))
    return found


def pineappls_prediction(path):
    """Prediction for each bin by PineAPPL's own contraction."""
    from pineappl.convolutions import Conv, ConvType
    from pineappl.fk_table import FkTable

    table = FkTable.read(str(path))
    proton = Conv(ConvType(polarized=False, time_like=False), 2212)
    return np.array(table.convolve([proton], [lambda number, x, q2: xf(number, x)]))
