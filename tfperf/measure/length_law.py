"""How much memory a batch of samples of some length takes: bytes for a sample, for its places, for their pairs.

Where samples are padded to the longest of their batch, a layer that looks at each place alone adds to batch times
length, one that looks at pairs of places, as attention does, to batch times length squared.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class LengthLaw:
    """`fixed + batch * (per_sample + per_place * length + per_pair * length ** 2)` bytes, of activations.

    lengths: those that it was fitted to; per_pair is None where there were two of them alone, which do not tell it.
    """

    fixed: float
    per_sample: float
    per_place: float
    per_pair: float | None
    lengths: tuple[int, ...]

    def predict(self, batch: float, length: float) -> float:
        """Bytes at the peak."""
        return self.fixed + batch * (self.per_sample + self.per_place * length + (self.per_pair or 0.0) * length**2)


def fit_lengths(points: Sequence[tuple[int, int, float]]) -> LengthLaw | None:
    """The law of points (batch, length, bytes at the peak) of the activations' phase; None where they are too few.

    Deviations are relative to the peak.
    """
    lengths = tuple(sorted({length for _, length, _ in points}))
    columns = 4 if len(lengths) > 2 else 3
    if len(lengths) < 2 or len(points) < columns:
        return None
    batch, length, peak = (np.array(column, float) for column in zip(*points, strict=True))
    terms = np.stack([np.ones_like(batch), batch, batch * length, batch * length**2][:columns], axis=1)
    scale = np.abs(terms).max(axis=0)
    found, _, rank, _ = np.linalg.lstsq(terms / scale / peak[:, None], np.ones_like(peak), rcond=None)
    if rank < columns:
        return None
    fixed, per_sample, per_place, *per_pair = map(float, found / scale)
    return LengthLaw(fixed, per_sample, per_place, per_pair[0] if per_pair else None, lengths)
