"""Ranges of exponents of made-up PDFs by NNPDF's own code: what the tests hold tfperf's against.

    python -m benchmarks.peer.exponent_side > tests/workloads/pdf/results/exponent_ranges.json

Run by an interpreter that has nnpdf, from the repository's root. Nothing of the package is copied.
"""

import json
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.peer.veto_side import NAMES, Q0
from tests.workloads.pdf.results.curves import FLAVOURS, make_curves

REPLICAS = 11


def main() -> None:
    """Print one JSON object."""
    from validphys import eff_exponents
    from validphys.core import MCStats
    from validphys.pdfbases import evolution

    names = {NAMES.get(name, name.upper()): row for row, name in enumerate(FLAVOURS)}
    nodes: list[float] = []

    def make_grid(pdf: object, q: float, xgrid: np.ndarray, basis: object, flavours: list[str]) -> object:
        """What the package evaluates a PDF by."""
        nodes.extend(xgrid.tolist())
        rows = [names[name] for name in flavours]

        def copy(values: Any) -> object:
            return SimpleNamespace(xgrid=xgrid, grid_values=values, copy_grid=lambda grid_values: copy(grid_values))

        members = np.stack([make_curves(xgrid, r)[rows] for r in range(REPLICAS)])
        return copy(MCStats(np.concatenate([members.mean(axis=0, keepdims=True), members])))  # its member 0 is the mean

    eff_exponents.pdfgrids.xplotting_grid = make_grid
    pdf = SimpleNamespace(q_min=Q0, stats_class=MCStats, label="made up")
    table = eff_exponents.next_effective_exponents_table(pdf, basis=evolution, flavours=list(names))
    ends = table.to_numpy().reshape(len(names), 2, 2).tolist()
    ranges = {name: {"smallx": pair[0], "largex": pair[1]} for name, pair in zip(FLAVOURS, ends, strict=True)}
    made_by = "nnpdf 4.1.5, validphys.eff_exponents.next_effective_exponents_table"
    print(json.dumps({
        "made_by": made_by, "basis": "evolution", "Q0_GeV": Q0, "replicas": REPLICAS, "x": nodes, "ranges": ranges,
    }))  # fmt: skip


if __name__ == "__main__":
    main()
