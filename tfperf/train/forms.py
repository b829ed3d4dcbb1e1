"""In which form the losses of a stack are computed: `shared`, or `folded` over a basis of PDFs."""

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from tfperf.errors import CardError
from tfperf.models.prior import sample_pdfs
from tfperf.operators.compiled import Compiled, folded, is_linear, linear_basis
from tfperf.operators.problem import Problem
from tfperf.operators.reduction import STEP, Basis
from tfperf.runcard.config import Card

Name = Literal["shared", "folded"]
SAMPLES, SAMPLES_SEED = 3000, 0
RAISE = 2 * STEP  # directions added after a violation of the tolerance


@dataclass(frozen=True)
class Form:
    """`shared`: exact. `folded`: the leading `rank` directions of `basis`; with all of them exact, too."""

    name: Name = "shared"
    rank: int = 0
    basis: Basis | None = field(default=None, compare=False)

    def compiled(self, problem: Problem, precision: str) -> Compiled | None:
        """The losses' constants for these replicas; None for the form that needs nothing but the problem."""
        if self.basis is None:
            return None
        return folded(problem, np.dtype(precision).type, self.basis.first(self.rank))

    @property
    def most(self) -> int:
        """Directions that there are."""
        return 0 if self.basis is None else self.basis.rank

    def raised(self) -> "Form":
        """The same with more directions."""
        return replace(self, rank=min(self.most, self.rank + RAISE))


def obstacle(problem: Problem) -> str | None:
    """Why the points of a problem cannot be folded; None: they can."""
    if not any(is_linear(d) for d in problem.datasets):
        return "no deep-inelastic set without operation"
    if (problem.root_weight != 1).any():
        return "weights of sets, which reports leave out"
    return None


def names(card: Card, problem: Problem) -> tuple[Name, ...]:
    """The forms to choose from; CardError when the card asks for one that cannot be."""
    why = obstacle(problem)
    if card.engine.form == "folded" and why is not None:
        raise CardError(f"engine.form: got folded, but the fit has {why}; allowed: auto, shared")
    if card.engine.form != "auto":
        return (card.engine.form,)
    return ("shared",) if why is not None else ("folded", "shared")


def make_form(card: Card, problem: Problem, name: Name) -> Form:
    """A form for this problem, with the rank that the card's tolerance asks for."""
    if name == "shared":
        return Form()
    x = problem.pack.x[: problem.observables.nodes]
    basis, rank = linear_basis(problem, sample_pdfs(card.model, x, SAMPLES, SAMPLES_SEED), card.engine.tolerance)
    return Form("folded", rank, basis)
