"""What the engine is told of a training."""

from dataclasses import dataclass
from typing import Literal

from tfperf.runcard.optimizers import ReplicaOptimizer


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a card says of a training, whatever is trained."""

    steps: int  # that a replica takes at most
    optimizer: ReplicaOptimizer | None = None  # of stacks that have no step of their own
    patience: int  # steps without a better monitor
    precision: str = "float32"
    steps_per_call: Literal["auto"] | int = "auto"
    checkpoint_every: int = 1000  # steps
    xla: Literal["auto"] | bool = "auto"
    devices: Literal["all"] | int = "all"
    cache: Literal["renew"] | bool = True
