"""What a fit moved in a card."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Move:
    """One setting of a card: what the fit had, what the next one has, and how far that is apart."""

    key: str
    before: str
    after: str
    distance: float | None  # None: nothing to compare with yet
    limit: float  # up to which it stands still
    unit: str

    @property
    def is_still(self) -> bool:
        """Whether it stands still."""
        return self.distance is not None and self.distance <= self.limit
