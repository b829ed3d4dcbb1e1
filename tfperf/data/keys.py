"""Counter-based random streams: each draw is a function of (seed, replica, purpose) and of nothing else.

Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3" (Philox-4x64-10, as NumPy implements it).
"""

from enum import IntEnum

import numpy as np

# 64-bit key word: replica (32 bits) | attempt (16 bits) | purpose (16 bits)
_ATTEMPT_BITS = _PURPOSE_BITS = 16


class Purpose(IntEnum):
    """What a stream is for; numbers are part of the results, so they never change."""

    NOISE = 1
    SPLIT = 2
    EXPONENTS = 3
    WEIGHTS = 4
    TRUTH = 5
    ORDER = 6
    MODEL_SEED = 7
    BOOTSTRAP = 8


def make_generator(seed: int, replica: int, purpose: Purpose, attempt: int = 0) -> np.random.Generator:
    """The stream of one replica (0: common to all) for one purpose; `attempt` counts retries with a new start.

    >>> noise = make_generator(seed=7, replica=3, purpose=Purpose.NOISE).standard_normal(2)
    >>> bool((make_generator(7, 3, Purpose.NOISE).standard_normal(2) == noise).all())
    True
    >>> bool((make_generator(7, 4, Purpose.NOISE).standard_normal(2) == noise).any())
    False
    """
    word = (replica << (_ATTEMPT_BITS + _PURPOSE_BITS)) | (attempt << _PURPOSE_BITS) | int(purpose)
    return np.random.Generator(np.random.Philox(key=np.array([seed, word], dtype=np.uint64)))
