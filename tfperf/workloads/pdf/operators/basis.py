"""From the fitted flavours to those of the tables, folded into the tables once.

At Q0, below the bottom mass and with symmetric charm, 14 evolution flavours have 8 independent ones:
v15 = v24 = v35 = v, t24 = t35 = sigma, no photon. Source: NNPDF4.0, arXiv:2109.02653, section 3.1.1.
"""

import numpy as np

from tfperf.arrays import FloatArray
from tfperf.errors import PackError
from tfperf.workloads.pdf.card import FITTED
from tfperf.workloads.pdf.data.pack import Table

Legs = tuple[int, ...]
EQUAL_AT_Q0 = {"v15": "v", "v24": "v", "v35": "v", "t24": "sigma", "t35": "sigma"}
ABSENT = ("photon",)


def find_fitted_index(flavour: str) -> int | None:
    """Index of the fitted flavour that equals this one at Q0; None: it is zero. PackError for unknown names.

    >>> FITTED[find_fitted_index("t24")], find_fitted_index("photon")
    ('sigma', None)
    """
    name = EQUAL_AT_Q0.get(flavour, flavour)
    if name in FITTED:
        return FITTED.index(name)
    if name in ABSENT:
        return None
    raise PackError(f"flavour {flavour!r}: must be one of {', '.join((*ABSENT, *FITTED, *EQUAL_AT_Q0))}")


def add_equal_flavours(table: Table) -> dict[Legs, FloatArray]:
    """Columns of the table over the fitted flavours alone, exactly the same predictions.

    By fitted flavour f, (rows, X) arrays, or by pair f <= g, (rows, X, X) with x of f first; channels that are zero
    everywhere are left out. In float64; those of hadronic tables, which are large, in the precision of the table.
    """
    values = table.read_values()
    sums: dict[Legs, FloatArray] = {}
    for c, names in enumerate(table.channels):
        legs = [find_fitted_index(name) for name in names]
        if None in legs:
            continue
        column = values[:, c] if table.hadronic else values[:, :, c]
        if not column.any():
            continue
        key = tuple(sorted(leg for leg in legs if leg is not None))
        column = column.astype(np.float64)
        column = column.transpose(0, 2, 1) if list(key) != legs else column
        sums[key] = sums[key] + column if key in sums else column
    return {key: total.astype(values.dtype) if table.hadronic else total for key, total in sums.items()}
