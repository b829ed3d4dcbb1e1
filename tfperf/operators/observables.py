"""Predictions as one matrix product followed by the operations between tables.

Columns are (flavour, x) of the fitted PDF, K = 8 X; T rows are those of all tables. The operations are written with
arithmetic only, so that NumPy arrays and tensors take them alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfperf.data.pack import Dataset, PositivitySet
from tfperf.operators.basis import fold

Array = NDArray[np.float64]


def combine(operation: str, parts: Sequence[Any]) -> Any:
    """One dataset's predictions from those of its tables, each (..., N) or (..., 1); formulas in data/pack.py."""
    match operation:
        case "NULL":
            return parts[0]
        case "RATIO":
            return parts[0] / parts[1]
        case "ASY":
            return (parts[0] - parts[1]) / (parts[0] + parts[1])
        case "ADD":
            return parts[0] + parts[1]
        case "SMN":
            return (parts[0] + parts[1]) / (parts[2] + parts[3])
        case "COM":
            return sum(parts[1:10], parts[0]) / sum(parts[11:20], parts[10])
    raise ValueError(operation)


@dataclass(frozen=True)
class Term:
    """A dataset, or several neighbours without operation: where its tables' rows lie."""

    operation: str
    rows: tuple[slice, ...]


@dataclass(frozen=True)
class Observables:
    """table (T, K); terms in the order of the datasets; the last `positive` rows are the positivity predictions."""

    table: Array
    terms: tuple[Term, ...]
    positive: int

    def predict(self, pdf: Array) -> Array:
        """Predictions (..., N) in float64 for x f (..., 8, X)."""
        raw = pdf.reshape(*pdf.shape[:-2], -1) @ self.table.T
        return np.concatenate([combine(t.operation, [raw[..., r] for r in t.rows]) for t in self.terms], axis=-1)

    def predict_positive(self, pdf: Array) -> Array:
        """Predictions (..., P) of the positivity sets in float64 for x f (..., 8, X)."""
        table = self.table[len(self.table) - self.positive :]
        out: Array = pdf.reshape(*pdf.shape[:-2], -1) @ table.T
        return out


def predict_sets(datasets: Sequence[Dataset], pdf: Array) -> list[Array]:
    """Predictions (n) of each dataset for x f (8, X), in float64."""
    return [compile_observables([d]).predict(pdf) for d in datasets]


def compile_observables(datasets: Sequence[Dataset], positivity: Sequence[PositivitySet] = ()) -> Observables:
    """Stack all tables, folded to the fitted flavours; neighbouring sets without operation become one term."""
    tables: list[Array] = []
    terms: list[Term] = []
    start = 0
    for dataset in datasets:
        rows = []
        for table in dataset.tables:
            tables.append(fold(table, dataset.flavours))
            rows.append(slice(start, start := start + len(table)))
        last = terms[-1] if terms else None
        if dataset.operation == "NULL" and last and last.operation == "NULL":
            terms[-1] = Term("NULL", (slice(last.rows[0].start, rows[0].stop),))
        else:
            terms.append(Term(dataset.operation, tuple(rows)))
    tables += [fold(p.table, p.flavours) for p in positivity]
    return Observables(np.concatenate(tables), tuple(terms), sum(len(p.table) for p in positivity))
