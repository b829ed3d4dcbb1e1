"""The keys that cards of all workloads have, to derive the card of a package's workload from."""

from typing import ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from tfperf.runcard.memory import MemoryBudget
from tfperf.runcard.nodes import CardNode
from tfperf.runcard.profile import Profile
from tfperf.runcard.sweep import Sweep
from tfperf.runcard.types import STRICT, Seed, Title


@dataclass(frozen=True, kw_only=True, config=STRICT)
class BaseCard:
    """A card but for `workload`, a Literal of the workload's name, and the keys of its own."""

    card_node: ClassVar[CardNode | None] = None  # of a loaded card the tree that it came from

    title: Title = Field(default="", description="what the report is headed with")
    seed: Seed = Field(default=0, description="the one seed that all draws derive from")
    profile: Profile | None = Field(default=None, description="steps to be recorded for tfperf profile")
    sweep: Sweep | None = Field(default=None, description="values that tfperf sweep goes through")
    memory: MemoryBudget | None = Field(default=None, description="what tfperf memory may use")
