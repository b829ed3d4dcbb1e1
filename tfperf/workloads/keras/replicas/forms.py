"""In which forms replicas of a Keras model can be trained, and in how many stacks each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tfperf.train.forms import PlainForm

LANES, STACKED = "lanes", "stacked"
WHOLE, PARTS = "whole", "parts"
NAMES, LAYOUTS = (STACKED, LANES), (WHOLE, PARTS)


@dataclass(frozen=True)
class ReplicaForm(PlainForm):
    """Lanes are stacks of one replica each; a stack is one, or in parts as many as take their steps side by side."""

    name: str = STACKED
    products: str = WHOLE
    stacks: int | None = 1


@dataclass(frozen=True)
class ReplicaForms:
    """Those that are to be tried; threads: stacks that take their steps at the same time."""

    replicas: int
    threads: int
    names: Sequence[str] = NAMES

    @property
    def layouts(self) -> Sequence[str]:
        """Of a stack: whole, and in parts where there is more than one thread, and two replicas for each."""
        return LAYOUTS if STACKED in self.names and self.replicas >= 2 * self.threads > 2 else (WHOLE,)

    def make(self, name: str, layout: str) -> ReplicaForm:
        """The form of one of the names, with one of the layouts; lanes have one."""
        if name == LANES:
            return ReplicaForm(LANES, WHOLE, stacks=self.replicas)
        return ReplicaForm(name, layout, stacks=self.threads if layout == PARTS else 1)


def list_forms(
    wanted: Literal["auto", "lanes", "stacked"], reasons: Sequence[str], replicas: int, threads: int
) -> ReplicaForms:
    """What a card leaves open; reasons: why there can be no stack, which then are refused before."""
    if wanted != "auto":
        return ReplicaForms(replicas, threads, (wanted,))
    return ReplicaForms(replicas, threads, (LANES,) if reasons or replicas == 1 else NAMES)
