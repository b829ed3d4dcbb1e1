"""Made-up PDFs for which NNPDF's own code was asked for arc lengths and integrability; needs NumPy alone."""

import numpy as np

FLAVOURS = ("sigma", "g", "v", "v3", "v8", "t3", "t8", "t15")


def make_curves(x: np.ndarray, replica: int) -> np.ndarray:
    """x f (8, X) of a made-up replica: powers at both ends, and waves."""
    rows = []
    for number in range(len(FLAVOURS)):
        low, high = 0.05 + 0.12 * number - 0.01 * replica, 3.0 + 0.4 * number + 0.1 * replica
        wave = 1 + 0.2 * np.sin((3 + replica + number) * x) * np.exp(-x)
        rows.append((1.5 + 0.3 * number) * x**low * (1 - x) ** high * wave)
    return np.array(rows)
