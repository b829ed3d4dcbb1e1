"""Whether the last samples are like the others."""

import numpy as np


def check_split(labels, share=0.2):
    """Each label has its share among those that validate, to five deviations of a draw without replacement."""
    held = round(share * len(labels))
    for label in np.unique(labels):
        part = np.mean(labels == label)
        deviation = np.sqrt(held * part * (1 - part) * (1 - share))
        assert abs(np.sum(labels[-held:] == label) - held * part) <= 5 * deviation, label
