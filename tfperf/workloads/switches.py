"""What `tfperf ablate` switches off: optimisations that a workload's cards can do without, and variants to measure."""

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfperf.runcard.keys import Tree, get, put

NAIVE = "naive"


@dataclass(frozen=True)
class Switch:
    """One optimisation and the keys of the card that turn it off."""

    name: str
    says: str
    off: Mapping[str, Any]
    changes_results: bool = (
        False  # what is computed, beyond rounding: variants are compared with one that has it off, too
    )
    only_with: Mapping[str, Any] = field(default_factory=dict)  # without these keys of the card it does nothing


@dataclass(frozen=True)
class Variant:
    """One way to compute the same training: a card with some switches off, or plain Keras."""

    off: tuple[str, ...] = ()
    naive: bool = False

    @property
    def key(self) -> str:
        """Its name, which no other variant of a card has."""
        if self.naive:
            return ", ".join([NAIVE, *(f"without {name}" for name in self.off)])
        return f"without {', '.join(self.off)}" if self.off else "full"


@dataclass(frozen=True)
class Request:
    """What to measure of which variant; all values come from JSON.

    checked: the replicas whose losses after one step are wanted, in float64; (1,) where a card has no replicas.
    """

    card: Tree
    naive: bool = False
    decide: bool = False  # find what `auto` stands for, nothing else
    seconds: float | None = None  # of steps to be timed, five samples at least; None: no timing
    checked: tuple[int, ...] = ()


@dataclass(frozen=True)
class AblationPlan:
    """The switches that a card has on, in order, and why others are left out."""

    switches: tuple[Switch, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    naive: bool = True  # whether there is a naive variant, which all others are compared with

    @property
    def cumulative(self) -> list[Variant]:
        """The naive variant, everything off, then one switch more each time, to the full card."""
        names = tuple(s.name for s in self.switches)
        first = [self.make_reference(Variant(names))] if self.naive else []
        return [*first, *(Variant(names[i:]) for i in range(len(names) + 1))]

    @property
    def leave_one_out(self) -> dict[str, Variant]:
        """The full card without each switch."""
        return {s.name: Variant((s.name,)) for s in self.switches}

    @property
    def variants(self) -> list[Variant]:
        """All that is timed, each once."""
        return list(dict.fromkeys([*self.cumulative, *self.leave_one_out.values()]))

    @property
    def references(self) -> list[Variant]:
        """Variants that the others are compared with."""
        return list(dict.fromkeys(self.make_reference(variant) for variant in self.variants))

    def make_reference(self, variant: Variant) -> Variant:
        """The variant that computes the same to rounding: the naive one, or the one with all else off."""
        changing = [s.name for s in self.switches if s.changes_results]
        if self.naive:
            return Variant(tuple(name for name in variant.off if name in changing), naive=True)
        return Variant(tuple(s.name for s in self.switches if s.name in variant.off or s.name not in changing))

    def make_tree(self, card: Tree, variant: Variant) -> Tree:
        """The card of a variant."""
        out = copy.deepcopy(card)
        for switch in self.switches:
            if switch.name in variant.off:
                for key, value in switch.off.items():
                    put(out, key, value)
        return out


@dataclass(frozen=True)
class Switches:
    """What an ablation of one card needs, with the card's files read.

    switches: in the order in which they are turned on. hashes: sha256 of the files, by the keys that name them. naive:
    what that one is, in words; empty: there is none. bare: name and words of the one with everything off. not_steps:
    optimisations that no single steps can show, and why. decided: keys whose `auto` is measured first, the same for all
    variants. checked: the replicas whose losses are compared. figures: kept in the report; setting: in words.
    """

    switches: Sequence[Switch]
    hashes: Mapping[str, str] = field(default_factory=dict)
    naive: str = ""
    bare: tuple[str, str] = ("plain", "everything off")
    not_steps: Mapping[str, str] = field(default_factory=dict)
    decided: Sequence[str] = ()
    checked: tuple[int, ...] = (1,)
    figures: Mapping[str, Any] = field(default_factory=dict)
    setting: str = ""

    def make_plan(self, card: Tree) -> AblationPlan:
        """The switches that make a difference to a card."""
        idle = {s.name: why for s in self.switches if (why := _describe_idle(s, card))}
        on = tuple(s for s in self.switches if s.name not in idle)
        return AblationPlan(on, idle | dict(self.not_steps), bool(self.naive))

    def describe_series(self, plan: AblationPlan) -> list[tuple[str, str]]:
        """Name and words of each variant of the cumulative series."""
        first = [(NAIVE, self.naive)] if self.naive else []
        return [*first, self.bare, *((s.name, s.says) for s in plan.switches)]

    def get_tolerance(self, card: Tree) -> float:
        """By how much losses per point may be off in a variant of the card; 0: to rounding."""
        return 0.0


def _describe_idle(switch: Switch, card: Tree) -> str:
    """Why a switch makes no difference; empty: it does."""
    if all(get(card, key) == value for key, value in switch.off.items()):
        return f"the card has, or measured, {_format_keys(switch.off)}"
    # `auto` may become what it takes
    if any(get(card, key) not in (value, "auto") for key, value in switch.only_with.items()):
        return f"only with {_format_keys(switch.only_with)}"
    return ""


def _format_keys(keys: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {json.dumps(value)}" for key, value in keys.items())
