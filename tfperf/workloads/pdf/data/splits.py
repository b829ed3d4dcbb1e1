"""Training and validation points of each replica."""

from collections.abc import Sequence

import numpy as np

from tfperf.arrays import BoolMask

SMALL = 10  # sets with fewer points train with all of them, unless the card says otherwise of a set


def choose_fraction(size: int, own: float | None, common: float) -> float:
    """Share of a set's points that trains: its own one, else all of a small set, else that of all sets.

    >>> choose_fraction(20, None, 0.75), choose_fraction(4, None, 0.75), choose_fraction(4, 0.5, 0.75)
    (0.75, 1.0, 0.5)
    """
    if own is not None:
        return own
    return 1.0 if size < SMALL else common


def sample_split(sizes: Sequence[int], fractions: Sequence[float], rng: np.random.Generator) -> BoolMask:
    """True for training points (N): floor(fraction n) of each set, at least one, by lot.

    >>> mask = sample_split([20, 4], [0.75, 0.5], np.random.default_rng(1))
    >>> int(mask[:20].sum()), int(mask[20:].sum())
    (15, 2)
    """
    each = []
    for n, fraction in zip(sizes, fractions, strict=True):
        count = max(1, int(fraction * n))
        mask = np.zeros(n, bool)
        mask[rng.permutation(n)[:count]] = True
        each.append(mask)
    return np.concatenate(each)
