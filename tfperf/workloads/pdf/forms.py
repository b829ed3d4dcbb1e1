"""In which form the losses of a stack are computed: `shared`, or `folded` over a basis of PDFs."""

from dataclasses import dataclass, field, replace
from typing import Literal, cast, get_args

import numpy as np

from tfperf.data.cache import digest
from tfperf.runcard.faults import Fault
from tfperf.runcard.places import make_unfit_error
from tfperf.workloads.pdf.card import Card
from tfperf.workloads.pdf.operators.loss_constants import (
    LossConstants,
    build_folded,
    build_hadronic_basis,
    build_linear_basis,
    is_hadronic,
    is_linear,
)
from tfperf.workloads.pdf.operators.observables import Layout, Observables
from tfperf.workloads.pdf.operators.problem import Problem
from tfperf.workloads.pdf.operators.reduction import STEP, Basis
from tfperf.workloads.pdf.prior import sample_pdfs

Name = Literal["shared", "folded"]
NAMES, LAYOUTS = get_args(Name), get_args(Layout)
SAMPLES, SAMPLES_SEED = 3000, 0
RAISE = 2 * STEP  # directions added after a violation of the tolerance
MOST_ENTRIES = 3.0  # times the entries of grouped products: a joined one with more is not tried


@dataclass(frozen=True)
class Chi2Form:
    """`shared`: exact. `folded`: linear sets over the leading `rank` directions of `basis`; with all of them exact.

    With a tolerance above 0 hadronic sets go over the leading `hadronic_rank` directions of a basis of their own.
    """

    name: Name = "shared"
    rank: int = 0
    hadronic_rank: int = 0
    tolerance: float = 0.0
    raises: int = 0  # how often directions were added
    products: Layout = "grouped"
    basis: Basis | None = field(default=None, compare=False)
    hadronic: Basis | None = field(default=None, compare=False)

    def arrange(self, observables: Observables) -> Observables:
        """Grouped observables with the products of this form."""
        return observables.to_layout(self.products)

    def build_constants(self, problem: Problem, precision: str) -> LossConstants | None:
        """The losses' constants for these replicas; None for the form that needs nothing but the problem."""
        if self.basis is None:
            return None
        hadronic = None if self.hadronic is None else self.hadronic.truncate(self.hadronic_rank)
        width = np.dtype(precision).type
        basis = self.basis.truncate(self.rank)
        tolerance = self.tolerance / 2**self.raises
        key = digest(
            problem.tables_digest, problem.covariance, problem.data, problem.training, problem.root_weight,
            width, basis, hadronic, tolerance,
        )  # fmt: skip
        folded = problem.cache.get(
            "folded", problem.tables_digest and key, lambda: build_folded(problem, width, basis, hadronic, tolerance)
        )
        return replace(folded, points=replace(folded.points, observables=self.arrange(folded.points.observables)))

    @property
    def directions(self) -> dict[str, int]:
        """How many of how many directions there are, in words that a report can use."""
        out = {} if self.basis is None else {"rank": self.rank, "rank_of": self.basis.rank}
        return (
            out
            if self.hadronic is None
            else out | {"hadronic_rank": self.hadronic_rank, "hadronic_rank_of": self.hadronic.rank}
        )

    def raise_rank(self) -> "Chi2Form":
        """The same with more directions, of which less is neglected; itself where there are no more."""
        rank, hadronic_rank = (
            0 if basis is None else min(basis.rank, used + RAISE)
            for basis, used in ((self.basis, self.rank), (self.hadronic, self.hadronic_rank))
        )
        if (rank, hadronic_rank) == (self.rank, self.hadronic_rank):
            return self
        return self.replace_numbers((rank, hadronic_rank, self.raises + 1))

    @property
    def numbers(self) -> tuple[int, int, int]:
        """Directions for linear and for hadronic sets, and how often some were added."""
        return self.rank, self.hadronic_rank, self.raises

    def replace_numbers(self, numbers: tuple[int, ...]) -> "Chi2Form":
        """The same with other numbers. Raises: ValueError for another count of them."""
        rank, hadronic_rank, raises = numbers
        return replace(self, rank=rank, hadronic_rank=hadronic_rank, raises=raises)


def find_obstacle(problem: Problem) -> str | None:
    """Why the points of a problem cannot be folded; None: they can."""
    if not any(is_linear(d) for d in problem.datasets):
        return "no deep-inelastic set without operation"
    if (problem.root_weight != 1).any():
        return "weights of sets, which reports leave out"
    return None


def list_forms(card: Card, problem: Problem) -> tuple[Name, ...]:
    """The forms to choose from; UnfitCardError when the card asks for one that cannot be."""
    why = find_obstacle(problem)
    if card.engine.form == "folded" and why is not None:
        raise make_unfit_error(card, [Fault("engine.form", "folded", f"the fit has {why}; allowed: auto, shared")])
    if card.engine.form != "auto":
        return (card.engine.form,)
    return ("shared",) if why is not None else ("shared", "folded")


def list_layouts(card: Card, problem: Problem) -> tuple[Layout, ...]:
    """How the products may be laid out; a single one is no choice where it has far more to multiply."""
    if card.engine.products != "auto":
        return (card.engine.products,)
    grouped = problem.observables
    joined_entries = grouped.joined_entries if len(grouped.products) + len(grouped.bilinear) > 1 else np.inf
    return ("grouped", "joined") if joined_entries <= MOST_ENTRIES * grouped.entries else ("grouped",)


class Candidates:
    """The forms that a card leaves to choose from, each made when it is asked for: a basis takes seconds."""

    def __init__(self, card: Card, problem: Problem) -> None:
        """Raises: CardError when the card asks for a form that cannot be."""
        self.card, self.problem = card, problem
        self.names, self.layouts = list_forms(card, problem), list_layouts(card, problem)
        self._forms: dict[str, Chi2Form] = {}

    @property
    def first(self) -> Chi2Form:
        """The one that is made first."""
        return self.make(self.names[0], self.layouts[0])

    def make(self, name: str, layout: str) -> Chi2Form:
        """A form, one of NAMES with one of LAYOUTS, with the rank that the card's tolerance asks for."""
        if name not in self._forms:
            self._forms[name] = build_form(self.card, self.problem, cast(Name, name))
        return replace(self._forms[name], products=cast(Layout, layout))


def build_form(card: Card, problem: Problem, name: Name) -> Chi2Form:
    """A form for this problem, with the rank that the card's tolerance asks for."""
    if name == "shared":
        return Chi2Form()
    key = digest(problem.tables_digest, problem.covariance, problem.training, card.model, card.engine.tolerance)
    return problem.cache.get("bases", problem.tables_digest and key, lambda: _build_folded_form(card, problem))


def _build_folded_form(card: Card, problem: Problem) -> Chi2Form:
    x = problem.pack.x[: problem.observables.nodes]
    samples, tolerance = sample_pdfs(card.model, x, SAMPLES, SAMPLES_SEED), card.engine.tolerance
    basis, rank = build_linear_basis(problem, samples, tolerance)
    if tolerance == 0 or not any(is_hadronic(d) for d in problem.datasets):
        return Chi2Form("folded", rank, tolerance=tolerance, basis=basis)
    hadronic, hadronic_rank = build_hadronic_basis(problem, samples, tolerance)
    return Chi2Form("folded", rank, hadronic_rank, tolerance, basis=basis, hadronic=hadronic)
