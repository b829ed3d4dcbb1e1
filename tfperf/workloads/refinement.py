"""What a fit says of the settings of the next one, for `tfperf iterate`."""

from collections.abc import Sequence
from dataclasses import dataclass

from tfperf.results.moves import Move
from tfperf.runcard.kinds import AnyCard


@dataclass(frozen=True)
class Refinement:
    """The card of the next fit, and what has moved."""

    card: AnyCard
    moves: Sequence[Move]
    notes: Sequence[str] = ()  # what to know beside

    @property
    def is_still(self) -> bool:
        """Whether all settings stand still, so that another fit would tell nothing new."""
        return all(move.is_still for move in self.moves)
