"""Objects that a program gives in place of what a card would name: `tfperf.given:model` stands for one of them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tfperf.errors import UserError

ORIGIN = "tfperf.given"  # in the place of a module
_OBJECTS: ContextVar[Mapping[str, Any] | None] = ContextVar("tfperf_given", default=None)


@contextmanager
def give_objects(objects: Mapping[str, Any]) -> Iterator[None]:
    """Let cards that are carried out within name these objects."""
    before = _OBJECTS.set(objects)
    try:
        yield
    finally:
        _OBJECTS.reset(before)


def find_object(name: str, key: str) -> Any:
    """The object of a name; of a function what it returns is the caller's matter. Raises: UserError."""
    objects = _OBJECTS.get() or {}
    if name not in objects:
        raise UserError(
            f"{key}: got {ORIGIN}:{name}; it was an object of a Python program: go on from there, by tfperf.fit"
        )
    return objects[name]


def is_given(reference: str | None, kind: type[Any]) -> bool:
    """Whether a card's text stands for an object of a type.

    >>> with give_objects({"model": 3}):
    ...     is_given("tfperf.given:model", int), is_given("tfperf.given:model", str), is_given("nets:build_model", int)
    (True, False, False)
    """
    origin, _, name = (reference or "").rpartition(":")
    return origin == ORIGIN and isinstance((_OBJECTS.get() or {}).get(name), kind)
