"""How many targets lie in central intervals of a few replicas where targets and replicas scatter alike."""

import numpy as np
from scipy.stats import norm

from tfperf.arrays import Float64Array

DRAWS = 10_000  # sets of replicas, of which the shares are known to 0.001
MOST_NUMBERS = 2**22  # that are drawn; of many replicas the shares scatter less
SEED = 20_041


def compute_expected_coverage(replicas: int, levels: Float64Array) -> Float64Array:
    """Shares (levels) of targets inside central intervals of R replicas, if both are draws of one normal distribution.

    The interval of level c is from quantile a = (1 - c) / 2 to 1 - a of the replicas, by linear interpolation, as
    np.quantile has it. Of R + 1 draws of one continuous distribution each rank of the last is as likely, so that it
    lies below the k-th of the others with probability k / (R + 1): whatever the distribution, where (R - 1) a is a
    whole number. Of uniform draws that is so between two replicas, too: inside are 1 - 2 (1 + (R - 1) a) / (R + 1).
    What normal draws change by that interpolation is the mean over sets of them, of the probability between the ends
    less what it is if probabilities are interpolated instead.

    >>> compute_expected_coverage(5, np.array([0.5])).round(8)  # from the second to the fourth of five: 2 of 6 gaps
    array([0.33333333])
    """
    sets = np.random.default_rng(SEED).standard_normal((replicas, max(200, min(DRAWS, MOST_NUMBERS // replicas))))
    low = (1 - levels) / 2
    ends = np.concatenate([low, 1 - low])
    changes = (norm.cdf(np.quantile(sets, ends, axis=0)) - np.quantile(norm.cdf(sets), ends, axis=0)).mean(axis=1)
    uniform = 1 - 2 * (1 + (replicas - 1) * low) / (replicas + 1)
    found: Float64Array = uniform + changes[len(levels) :] - changes[: len(levels)]
    return found
