"""Training and validation points of each replica."""

from collections.abc import Sequence

import numpy as np

from tfperf.arrays import BoolMask

SMALL = 10  # sets with fewer points train with all of them


def sample_split(sizes: Sequence[int], fractions: Sequence[float], rng: np.random.Generator) -> BoolMask:
    """True for training points (N): of a set with `SMALL` points or more floor(fraction n), at least one, by lot.

    >>> mask = sample_split([20, 4], [0.75, 0.5], np.random.default_rng(1))
    >>> int(mask[:20].sum()), int(mask[20:].sum())  # the second set is a small one
    (15, 4)
    """
    each = []
    for n, fraction in zip(sizes, fractions, strict=True):
        count = n if n < SMALL else max(1, int(fraction * n))
        mask = np.zeros(n, bool)
        mask[rng.permutation(n)[:count]] = True
        each.append(mask)
    return np.concatenate(each)
