"""From the fitted flavours to those of the tables, folded into the tables once.

At Q0, below the bottom mass and with symmetric charm, 14 evolution flavours have 8 independent ones:
v15 = v24 = v35 = v, t24 = t35 = sigma, no photon. Source: NNPDF4.0, arXiv:2109.02653, section 3.1.1.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tfperf.errors import PackError
from tfperf.runcard.config import FITTED

Array = NDArray[np.float64]
EQUAL_AT_Q0 = {"v15": "v", "v24": "v", "v35": "v", "t24": "sigma", "t35": "sigma"}
ABSENT = ("photon",)


def rotation(flavours: Sequence[str]) -> Array:
    """Matrix (F, 8) with x f of the given flavours = matrix @ x f of the fitted ones; PackError for unknown names."""
    matrix = np.zeros((len(flavours), len(FITTED)))
    for i, flavour in enumerate(flavours):
        fitted = EQUAL_AT_Q0.get(flavour, flavour)
        if fitted in FITTED:
            matrix[i, FITTED.index(fitted)] = 1.0
        elif flavour not in ABSENT:
            raise PackError(f"flavour {flavour!r}: must be one of {', '.join((*ABSENT, *FITTED, *EQUAL_AT_Q0))}")
    return matrix


def fold(table: Array, flavours: Sequence[str]) -> Array:
    """Table (N, X, F) over the pack's flavours -> (N, 8 X) over the fitted ones, flavour-major; exact."""
    return np.ascontiguousarray(np.einsum("nxf,fe->nex", table, rotation(flavours))).reshape(len(table), -1)
