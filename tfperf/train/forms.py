"""What a training leaves to choose from: forms of its losses, and layouts of their products."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self


class LossForm(Protocol):
    """One of the ways in which a stack's losses can be computed. Equal forms compute the same.

    One that has an attribute `stacks` says into how many stacks the replicas of a CPU are cut.
    """

    @property
    def name(self) -> str:
        """Of letters and underscores."""

    @property
    def products(self) -> str:
        """Name of the layout of its products."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """What of it may change in a training, first what grows as it comes closer to the exact losses."""

    def replace_numbers(self, numbers: tuple[int, ...]) -> Self:
        """The same with other numbers. Raises: ValueError for another count of them."""


@dataclass(frozen=True)
class PlainForm:
    """Where there is nothing to choose from."""

    name: str = "plain"
    products: str = "plain"
    numbers: tuple[int, ...] = ()
    stacks: int | None = None

    def replace_numbers(self, numbers: tuple[int, ...]) -> Self:
        """Itself."""
        if numbers:
            raise ValueError(f"numbers of another form: {numbers}")
        return self


class Forms(Protocol):
    """The forms that are to be tried, each made when it is asked for."""

    @property
    def names(self) -> Sequence[str]:
        """Compared with one another first."""

    @property
    def layouts(self) -> Sequence[str]:
        """Of the fastest one's products."""

    def make(self, name: str, layout: str) -> Any:
        """The form of one of the names, with one of the layouts."""


@dataclass(frozen=True)
class PlainForms:
    """Nothing to choose from."""

    names: tuple[str, ...] = ("plain",)
    layouts: tuple[str, ...] = ("plain",)

    def make(self, name: str, layout: str) -> PlainForm:
        """The one form."""
        return PlainForm(name, layout)
