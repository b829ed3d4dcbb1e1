"""Correction factors ("K-factors", cfactors) of FK tables, as NNPDF keeps them: a value and an uncertainty per row.

Source: the format that `validphys.fkparser.parse_cfactor` of package nnpdf 4.1.5 reads, arXiv:2109.02653: a line of
stars, a description, another line of stars, then two numbers a row. Files are CF_FACTOR_TABLE.dat.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tfperf.arrays import Float64Array
from tfperf.errors import UserError
from tfperf.workloads.pdf.card_exponents import FITTED
from tfperf.workloads.pdf.data.closure import compute_toy_pdf
from tfperf.workloads.pdf.data.fktables import FkTable
from tfperf.workloads.pdf.data.validate import FLAVOURS
from tfperf.workloads.pdf.operators.observables import combine

STEP = 1e-5  # relative, of a derivative


@dataclass(frozen=True)
class CorrectionFactor:
    """One factor of one table: values (n) and their absolute uncertainties (n)."""

    name: str
    table: str
    values: Float64Array
    uncertainties: Float64Array


def find_factor(name: str, table: str, folders: Sequence[Path]) -> Path:
    """The file of a table's factor, in the first folder that has it. Raises: UserError."""
    file = f"CF_{name}_{table}.dat"
    for folder in folders:
        if (folder / file).is_file():
            return folder / file
    raise UserError(f"{file}: missing; looked for in {', '.join(map(str, folders))}")


def read_factor(path: Path, name: str, table: str, rows: int) -> CorrectionFactor:
    """The factor in a file, of a table with so many rows. Raises: UserError for a file that is not one."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        stars = [place for place, line in enumerate(lines) if line.startswith("*")]
        if stars[:1] != [0] or len(stars) < 2:
            raise ValueError("must begin with a description between two lines of stars")
        values = np.loadtxt(lines[stars[1] + 1 :], ndmin=2)
        if values.shape != (rows, 2):
            raise ValueError(f"got numbers of shape {values.shape}; must be ({rows}, 2), a row for each of the table's")
        if not np.isfinite(values).all() or np.any(values < 0):
            raise ValueError("neither factors nor uncertainties may be below 0")
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: {error}") from None
    return CorrectionFactor(name, table, values[:, 0], values[:, 1])


def combine_errors(
    operation: str, tables: Sequence[Float64Array], relative: Sequence[Float64Array]
) -> Float64Array:  # fmt: skip
    """Relative errors (n) of predictions from those of what each table predicts, independent of each other.

    tables: predictions (n or 1) of some PDF; relative: their errors (n or 1). By differences, to first order.

    >>> combine_errors("RATIO", [np.array([2.0]), np.array([4.0])], [np.array([0.03]), np.array([0.04])]).round(4)
    array([0.05])
    """
    middle = combine(operation, tables)
    total = np.zeros(np.shape(middle))
    for place, errors in enumerate(relative):
        moved = [one * (1 + STEP * (place == number)) for number, one in enumerate(tables)]
        total = total + ((combine(operation, moved) - middle) / STEP * errors) ** 2
    found: Float64Array = np.divide(np.sqrt(total), np.abs(middle), out=np.zeros_like(total), where=middle != 0)
    return found


def multiply_table(table: FkTable, factors: Sequence[CorrectionFactor]) -> FkTable:
    """The table whose rows are multiplied by all of its factors."""
    product = np.ones(len(table.values))
    for one in factors:
        product = product * one.values
    return replace(table, values=table.values * product.reshape(-1, *[1] * (table.values.ndim - 1)))


def find_relative_errors(factors: Sequence[Sequence[CorrectionFactor]]) -> Float64Array:
    """Relative errors (rows) of an operand from those of its tables' factors, which are independent."""
    each = []
    for mine in factors:
        total = np.zeros(len(mine[0].values))
        for one in mine:
            known = one.values > 0  # zero stands for a row that nobody computed; where it is used, it is refused
            total = total + (np.divide(one.uncertainties, one.values, out=np.zeros(len(known)), where=known)) ** 2
        each.append(np.sqrt(total))
    return np.concatenate(each)


def predict_toy(axes: Mapping[str, Any], table: Float64Array, grid: Float64Array) -> Float64Array:
    """What a table predicts of the toy PDFs: where its operation is linear enough does not depend on which PDF."""
    toy = dict(zip(FITTED, compute_toy_pdf(grid), strict=True))
    toy |= {"v15": toy["v"], "v24": toy["v"], "v35": toy["v"], "t24": toy["sigma"], "t35": toy["sigma"]}
    pdf = np.stack([toy.get(name, np.zeros(len(grid))) for name in FLAVOURS])
    if "flav" in axes:
        predicted: Float64Array = np.einsum("nxf,fx->n", table, pdf[axes["flav"]])
        return predicted
    first, second = pdf[axes["channels"][:, 0]], pdf[axes["channels"][:, 1]]
    both: Float64Array = np.einsum("ncxz,cx,cz->n", table, first, second)
    return both


def add_error(measured: Mapping[str, Any], name: str, sizes: Float64Array) -> dict[str, Any]:
    """The measurements with one more systematic error, a fraction of the value."""
    return {
        **measured,
        "sys": np.concatenate([measured["sys"], sizes[:, None]], axis=1),
        "sys_names": np.array([*(str(n, "ascii") for n in measured["sys_names"]), name], "S"),
        "sys_is_mult": np.append(measured["sys_is_mult"], True),
    }
