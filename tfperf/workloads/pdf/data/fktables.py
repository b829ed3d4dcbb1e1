"""PineAPPL FK tables on one grid of nodes, in the convention of data packs: to be contracted with x f(x, Q0).

N rows, X grid nodes, F flavours, C luminosity channels. Source: PineAPPL, arXiv:2008.12789; its FK tables are to be
contracted with f(x, Q0) = x f(x, Q0) / x, and each row is normalised to its bin's width.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import lambertw

from tfperf.arrays import Float64Array, Indices, Int64Array
from tfperf.errors import UserError
from tfperf.results.reading import parse_json
from tfperf.workloads.pdf.data.commondata import import_optional

# flavours at Q0 below the bottom mass, as indices into the pack's `flavours`, by PineAPPL's number of each
FLAVOURS = {22: 0, 100: 1, 21: 2, 200: 3, 203: 4, 208: 5, 215: 6, 103: 9, 108: 10, 115: 11}
VALENCE = (200, 203, 208, 215)  # change sign from proton to antiproton
PROTON, ANTIPROTON = 2212, -2212
BOTTOM_MASS = 4.92  # GeV
SAME = 1e-9  # relative distance below which two nodes are one


@dataclass(frozen=True)
class FkTable:
    """One table: `values` (N, C, X) or (N, C, X, X), for x f; `channels` are the flavour indices of the C channels."""

    path: Path
    q0: float  # GeV
    x: Float64Array
    channels: Int64Array  # (C, 1 or 2)
    values: Float64Array
    theory: Mapping[str, Any] = field(default_factory=dict)  # NNPDF's theory card, where the table has one


def read_table(path: Path) -> FkTable:
    """Read one table and fold the flavours that are no independent ones below the bottom mass into sigma and v.

    Raises: UserError when the file is no such table, or not of unpolarised protons in the evolution basis.
    """
    pineappl = import_optional("pineappl", "pineappl")
    try:
        table = pineappl.fk_table.FkTable.read(str(path))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # what PineAPPL raises is no Exception
        raise UserError(f"{path}: cannot be read as a PineAPPL FK table") from None
    _refuse_others(pineappl, table, path)
    table.optimize(pineappl.fk_table.FkAssumptions("Nf4Ind"))
    numbers = np.array(table.channels())
    x = np.array(table.x_grid())
    hadrons = numbers.shape[1]
    weights = np.array(table.table()) / np.array(table.bin_normalizations()).reshape(-1, *[1] * (hadrons + 1))
    for axis, convolution in enumerate(table.convolutions):
        weights /= x.reshape(-1, *[1] * (hadrons - 1 - axis))
        if convolution.pid == ANTIPROTON:
            signs = np.where(np.isin(numbers[:, axis], VALENCE), -1.0, 1.0)
            weights *= signs.reshape(-1, *[1] * hadrons)
    channels = np.vectorize(FLAVOURS.__getitem__, otypes=[np.int64])(numbers)
    return FkTable(path, float(np.sqrt(table.fac0())), x, channels, weights, _read_theory(table))


def _read_theory(table: Any) -> Mapping[str, Any]:
    """The entry `theory` of a table's metadata; nothing where there is none, or it is no JSON object."""
    try:
        found = parse_json(str(table.metadata["theory"]))
    except (KeyError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _refuse_others(pineappl: Any, table: Any, path: Path) -> None:
    faults = []
    for convolution in table.convolutions:
        kind = convolution.convolution_types
        if kind.polarized or kind.time_like or convolution.pid not in (PROTON, ANTIPROTON):
            said = f"hadron {convolution.pid}, polarised {kind.polarized}, time-like {kind.time_like}"
            faults.append(f"{path}: {said}; allowed: parton densities of unpolarised protons and antiprotons")
    if table.pid_basis != pineappl.pids.PidBasis.Evol:
        faults.append(f"{path}: is not in the evolution basis; only that one is imported")
    if not 0 < table.fac0() < BOTTOM_MASS**2:
        faults.append(f"{path}: Q0 is {table.fac0() ** 0.5:g} GeV; must be below the bottom mass, {BOTTOM_MASS} GeV")
    if faults:
        raise UserError(*faults)


def merge_grids(grids: Iterable[Float64Array]) -> Float64Array:
    """The nodes (X) of all tables; the 50 of NNPDF4.0 where the tables have no others.

    Source of the 50: equidistant in 5 (1 - x) - log x from x = 2e-7 to 1, EKO, arXiv:2202.02338.
    """
    y = np.linspace(5 * (1 - 2e-7) - np.log(2e-7), 0, 50)
    standard = np.real(lambertw(5 * np.exp(5 - y))) / 5
    nodes = _merge_nodes(np.concatenate(list(grids)))
    every = _merge_nodes(np.concatenate([nodes, standard]))
    return every if len(every) == len(standard) else nodes


def _merge_nodes(nodes: Float64Array) -> Float64Array:
    """The nodes in rising order; of those that are the same up to rounding, the first."""
    kept: list[float] = []
    for node in dict.fromkeys(nodes.tolist()):
        if all(abs(node / k - 1) > SAME for k in kept):
            kept.append(node)
    return np.sort(kept)


def find_nodes(grid: Float64Array, x: Float64Array) -> Indices:
    """Where in the grid the nodes x are."""
    nearest: Indices = np.argmin(np.abs(grid[None, :] / x[:, None] - 1), axis=1)
    return nearest


def join_deep_inelastic(tables: Sequence[FkTable], grid: Float64Array, flav: Int64Array) -> Float64Array:
    """The tables one after the other as (N, X, F); `flav` (F) are flavour indices."""
    out = np.zeros((sum(len(t.values) for t in tables), len(grid), len(flav)))
    start = 0
    for table in tables:
        rows, nodes = slice(start, start := start + len(table.values)), find_nodes(grid, table.x)
        for column, (index,) in enumerate(table.channels.tolist()):
            if index in flav:
                out[rows, nodes, int(np.flatnonzero(flav == index)[0])] += table.values[:, column]
    return out


def join_hadronic(tables: Sequence[FkTable], grid: Float64Array, pairs: Int64Array) -> Float64Array:
    """The tables one after the other as (N, C, X, X); `pairs` (C, 2) are flavour indices c0 <= c1.

    A channel (a, b) with a > b is that of (b, a) with its axes exchanged.
    """
    out = np.zeros((sum(len(t.values) for t in tables), len(pairs), len(grid), len(grid)))
    numbers = {tuple(p): c for c, p in enumerate(pairs.tolist())}
    start = 0
    for table in tables:
        rows, nodes = np.arange(start, start := start + len(table.values)), find_nodes(grid, table.x)
        for column, (a, b) in enumerate(table.channels.tolist()):
            values = table.values[:, column] if a <= b else table.values[:, column].transpose(0, 2, 1)
            channel = np.array([numbers[min(a, b), max(a, b)]])
            out[np.ix_(rows, channel, nodes, nodes)] += values[:, None]
    return out
