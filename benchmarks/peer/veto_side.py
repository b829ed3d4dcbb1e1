"""Arc lengths and integrability of made-up PDFs by NNPDF's own code: what the tests hold tfperf's against.

    python -m benchmarks.peer.veto_side > tests/workloads/pdf/results/veto_figures.json

Run by an interpreter that has nnpdf, from the repository's root. Nothing of the package is copied.
"""

import json
from types import SimpleNamespace

import numpy as np

from tests.workloads.pdf.results.curves import FLAVOURS, make_curves

REPLICAS, Q0 = 4, 1.65
ARC_FLAVOURS = ("sigma", "g", "v", "v3", "v8")
INTEGRABLE = ("v", "t3", "v3", "t8", "v8")
NAMES = {"sigma": "\\Sigma", "g": "g"}  # of the package; all others are capitals


def main() -> None:
    """Print one JSON object."""
    from validphys import arclength
    from validphys.core import MCStats

    nodes: list[float] = []

    def make_grid(pdf: object, q: float, grid: tuple[str, np.ndarray], basis: object, flavours: list[str]) -> object:
        """What the package evaluates a PDF by, for the curves."""
        x = grid[1]
        nodes.extend(x.tolist())
        names = {NAMES.get(name, name.upper()): row for row, name in enumerate(FLAVOURS)}
        rows = [names[name] for name in flavours]
        return SimpleNamespace(grid_values=MCStats(np.stack([make_curves(x, r)[rows] for r in range(REPLICAS)])))

    arclength.xplotting_grid = make_grid
    pdf = SimpleNamespace(get_members=lambda: REPLICAS, stats_class=MCStats)
    found = arclength.arc_lengths(pdf, [Q0], "evolution", list(ARC_FLAVOURS))
    sums = arclength.integrability_number(pdf, [Q0], flavours=[name.upper() for name in INTEGRABLE])
    print(json.dumps({
        "made_by": "nnpdf 4.1.5, validphys.arclength", "basis": "evolution", "Q0_GeV": Q0,
        "arc_flavours": list(ARC_FLAVOURS), "integrable": list(INTEGRABLE), "x": nodes,
        "arc_lengths": found.stats.data.tolist(), "integrability": sums.tolist(),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
