"""A small training with one planted cause, or without it."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

Mark = Callable[[int], AbstractContextManager[Any]]  # goes around a step


@dataclass(frozen=True)
class Fit:
    """A Keras training: `steps` batches an epoch; settings: more of `fit`."""

    model: Any
    data: Any
    steps: int
    callbacks: Callable[[], list[Any]] = list
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class OwnLoop:
    """A loop of the program's own: `run` takes a mark and numbers, and puts the mark around the step of each number.

    changes: by name of a rule, the loop with what that asks for.
    """

    run: Callable[[Mark, Iterable[int]], None]
    steps_per_call: int = 1
    changes: Mapping[str, Callable[[], "OwnLoop"]] = field(default_factory=dict)


@dataclass(frozen=True)
class PlantedTraining:
    """`make(planted)` builds the training; `rule`: the cause that is planted, by the name of the rule that finds it.

    words: of what the finding has to name. sleeps: the cause is a sleep or a busy loop. devices: logical CPUs.
    small: arguments of `make` with which a profile is small enough to be kept.
    """

    name: str
    rule: str
    make: Callable[..., Fit | OwnLoop]
    words: tuple[str, ...] = ()
    sleeps: bool = False
    devices: int = 1
    small: Mapping[str, int] = field(default_factory=dict)

    @property
    def complaint(self) -> str:
        """Address of the thread that the program is made after, from the end of its docstring; empty where none."""
        return (self.make.__doc__ or "").partition("Complaint: ")[2].strip()

    @property
    def unseen(self) -> bool:
        """Whether it was written without knowledge of the rules, which its module's name tells."""
        return ".unseen_" in self.make.__module__


PROGRAMS: dict[str, PlantedTraining] = {}


def register_program(
    rule: str, *words: str, sleeps: bool = False, devices: int = 1, small: Mapping[str, int] | None = None
) -> Callable[[Callable[..., Fit | OwnLoop]], Callable[..., Fit | OwnLoop]]:  # fmt: skip
    """Register a function as a program by its name, without `make_`."""

    def register(make: Callable[..., Fit | OwnLoop]) -> Callable[..., Fit | OwnLoop]:
        name = make.__name__.removeprefix("make_")
        PROGRAMS[name] = PlantedTraining(name, rule, make, words, sleeps, devices, small or {})
        return make

    return register
