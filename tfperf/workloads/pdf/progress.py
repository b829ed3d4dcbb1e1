"""Progress of a fit of replicas in words."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # which loads TensorFlow
    from tfperf.train.trainer import EnsembleProgress


def describe_replicas(status: "EnsembleProgress") -> str:
    """What a line says of replicas."""
    chi2 = status.latest[np.isfinite(status.latest)]
    low, middle, high = np.percentile(chi2, [16, 50, 84]) if len(chi2) else [np.nan] * 3
    return (
        f"{status.steps_per_second:.0f} steps/s, chi2/N {middle:.3f} [{low:.3f}, {high:.3f}], {status.running} running"
        + (f", {status.quarantined} quarantined" if status.quarantined else "")
    )


def describe_chunk(chunk: int, chunks: int) -> str:
    """Which of several chunks a line is about, to stand before it."""
    return f"chunk {chunk} of {chunks}, " if chunks > 1 else ""
