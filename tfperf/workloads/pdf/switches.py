"""The optimisations in the order in which an ablation turns them on, and the forms of a card that it measures."""

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfperf.runcard.dump import as_tree
from tfperf.runcard.keys import Tree, get, put
from tfperf.workloads.pdf.card import Card
from tfperf.workloads.pdf.kind import KIND

NAIVE, STACKED = "naive", "stacked"
NAIVE_SAYS = "one Keras model per replica, `fit` with one step an epoch, boolean masks, padded tables"
STACKED_SAYS = "replicas as one batch; masks as weights; training, validation and penalties from one forward pass"


@dataclass(frozen=True)
class Switch:
    """One optimisation and the keys of the card that turn it off."""

    name: str
    says: str
    off: Mapping[str, Any]
    changes: bool = False  # what is computed, beyond rounding: forms are compared with a naive form that has it, too
    only_with: Mapping[str, Any] = field(default_factory=dict)  # without these keys of the card it does nothing


# Another optimisation takes another line. The order is that of the cumulative series.
SWITCHES = (
    Switch(
        "quadrature", "Gauss nodes instead of 2000 trapezoids in the sum rules",
        {"model.sum_rules.quadrature": "trapezoid"}, changes=True,
    ),
    Switch("products", "only the flavours and grid nodes that predictions use", {"engine.products": "padded"}),
    Switch("steps_per_call", "many steps in one compiled call, the host looks on now and then",
           {"train.steps_per_call": 1}),
    Switch("xla", "compiled with XLA", {"engine.xla": False}),
    Switch("stacks", "stacks of about ten replicas, one for each thread at the same time", {"engine.stacks": 1}),
    Switch("form", "points, masks and covariance folded into one small matrix for each replica",
           {"engine.form": "shared"}),
    Switch("tolerance", "a reduced basis of PDFs, within the card's tolerance; a fit's checks of it lie between calls",
           {"engine.tolerance": 0.0}, only_with={"engine.form": "folded"}),
)  # fmt: skip
# what no series of single steps can show
NOT_A_STEP = {"retirement": "replicas that have stopped leave the stack: it shortens a whole fit, not the first steps"}


@dataclass(frozen=True)
class Form:
    """One way to compute the same fit: the engine with some switches off, or the naive form."""

    off: tuple[str, ...] = ()
    naive: bool = False

    @property
    def key(self) -> str:
        """Its name, which no other form of a card has."""
        if self.naive:
            return ", ".join([NAIVE, *(f"without {name}" for name in self.off)])
        return f"without {', '.join(self.off)}" if self.off else "full"


@dataclass(frozen=True)
class Plan:
    """The switches that a card has on, in order, and why others are left out."""

    switches: tuple[Switch, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def cumulative(self) -> list[Form]:
        """Naive, everything off, then one switch more each time, to the full engine."""
        names = tuple(s.name for s in self.switches)
        return [self.reference(Form(names)), *(Form(names[i:]) for i in range(len(names) + 1))]

    @property
    def leave_one_out(self) -> dict[str, Form]:
        """The full engine without each switch."""
        return {s.name: Form((s.name,)) for s in self.switches}

    @property
    def forms(self) -> list[Form]:
        """All that is timed, each once."""
        return list(dict.fromkeys([*self.cumulative, *self.leave_one_out.values()]))

    @property
    def references(self) -> list[Form]:
        """Naive forms that the others are compared with."""
        return list(dict.fromkeys(self.reference(form) for form in self.forms))

    def reference(self, form: Form) -> Form:
        """The naive form that computes the same to rounding."""
        changing = [s.name for s in self.switches if s.changes]
        return Form(tuple(name for name in form.off if name in changing), naive=True)

    def tree(self, card: Tree, form: Form) -> Tree:
        """The card of a form."""
        out = copy.deepcopy(card)
        for switch in self.switches:
            if switch.name in form.off:
                for key, value in switch.off.items():
                    put(out, key, value)
        return out


def plan(card: Tree, switches: Sequence[Switch] = SWITCHES) -> Plan:
    """The switches that make a difference to this card."""
    idle = {s.name: why for s in switches if (why := _idle(s, card))}
    return Plan(tuple(s for s in switches if s.name not in idle), idle | NOT_A_STEP)


def _idle(switch: Switch, card: Tree) -> str:
    """Why a switch makes no difference; empty: it does."""
    if all(get(card, key) == value for key, value in switch.off.items()):
        return f"the card has, or measured, {_words(switch.off)}"
    # `auto` may become what it takes
    if any(get(card, key) not in (value, "auto") for key, value in switch.only_with.items()):
        return f"only with {_words(switch.only_with)}"
    return ""


def _words(keys: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {json.dumps(value)}" for key, value in keys.items())


def to_tree(card: Card) -> Tree:
    """The card as values that survive JSON."""
    tree: Tree = json.loads(json.dumps(as_tree(card)))
    return tree


def to_card(tree: Tree) -> Card:
    """The card that `to_tree` came from."""
    card: Card = KIND.grammar.adapter.validate_json(json.dumps(tree))
    return card
