"""How many targets lie in central intervals of a few replicas where targets and replicas scatter alike."""

import numpy as np
from scipy.stats import norm

from tfperf.arrays import Float64Array

DRAWS = 20_000  # sets of replicas, of which the share inside is known to about 0.002
MOST_NUMBERS = 2**22  # that are drawn; of many replicas the share scatters less
SEED = 20_041


def compute_expected_coverage(replicas: int, levels: Float64Array) -> Float64Array:
    """Shares (levels) of targets inside central intervals of R replicas, if both are draws of one normal distribution.

    The interval of level c is from quantile (1 - c) / 2 to (1 + c) / 2 of the replicas, by linear interpolation, as
    np.quantile has it. Of R + 1 draws of one continuous distribution each rank of the last is as likely, so that it
    lies below the k-th of the others with probability k / (R + 1), whatever the distribution: the share is exact for
    all of them where (R - 1)(1 - c) / 2 is a whole number. Between two
    replicas it depends on the distribution: here it is the mean over sets of normal replicas of the probability
    between the ends.

    >>> compute_expected_coverage(5, np.array([0.5])).round(2)  # from the second to the fourth of five: 2 of 6 gaps
    array([0.33])
    """
    draws = max(200, min(DRAWS, MOST_NUMBERS // replicas))
    sets = np.random.default_rng(SEED).standard_normal((replicas, draws))
    low, high = np.quantile(sets, (1 - levels) / 2, axis=0), np.quantile(sets, (1 + levels) / 2, axis=0)
    found: Float64Array = (norm.cdf(high) - norm.cdf(low)).mean(axis=1)
    return found
