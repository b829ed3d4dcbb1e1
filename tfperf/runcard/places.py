"""Faults in a card's values that only its files can tell, reported where the values were written."""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any, TypeVar

from pydantic import ValidationError

from tfperf.errors import CardError, FaultyCardError, UnfitCardError
from tfperf.runcard.explain import find_node, locate_fault, suggest_name
from tfperf.runcard.faults import KIND, Fault
from tfperf.runcard.kinds import AnyCard, CardKind
from tfperf.runcard.nodes import CardNode, LocatedFault, quote_value, shorten

MAX_FAULTS = 100
ROUNDS = 5  # what is left out of a card may bring out further faults
KeyPath = tuple[str, ...]
C = TypeVar("C", bound=AnyCard)


def attach_node(card: C, root: CardNode) -> C:
    """The card itself, which knows from now on where its values were written; that is no part of its value."""
    object.__setattr__(card, "card_node", root)
    return card


def replace_values(card: C, **changes: Any) -> C:
    """The card with other values for some of its keys; it still knows where the rest was written."""
    other: C = replace(card, **changes)
    return other if card.card_node is None else attach_node(other, card.card_node)


def make_card_error(found: Iterable[LocatedFault]) -> CardError:
    """The error of some faults, in the order of the card's lines."""
    return CardError(*_format_lines(found))


def make_unfit_error(card: AnyCard, keyed: Iterable[Fault]) -> UnfitCardError:
    """The error of faults, by full keys, that only a card's files tell."""
    return UnfitCardError(*_format_lines(locate_faults(card, keyed)))


@dataclass(frozen=True)
class FaultyCard:
    """A card with faults of its own, and what could be read of it."""

    found: Sequence[LocatedFault]
    kind: CardKind
    root: CardNode

    def make_error(self) -> FaultyCardError:
        """The error of its own faults."""
        return FaultyCardError(*_format_lines(self.found), card=self)

    def merge_faults(
        self, card: AnyCard, keyed: Iterable[Fault], is_certain: Callable[[Fault, KeyPath, Set[KeyPath]], bool]
    ) -> CardError:
        """The error of these faults and of those that the files of the rest (`remove_faults`) tell.

        None of a value that is refused here, and none that is not certain: is_certain(fault, its path, refused paths).
        """
        known = {one.path for one in self.found}
        more = [(fault, one) for fault in keyed for one in locate_faults(card, [fault]) if one.path not in known]
        return make_card_error([*self.found, *(one for fault, one in more if is_certain(fault, one.path, known))])

    def remove_faults(self) -> AnyCard | None:
        """The card without its faulty values; None: nothing is left that could be held against its files."""
        return _remove_faults(self.kind, self.root)


def locate_faults(card: AnyCard, keyed: Iterable[Fault]) -> list[LocatedFault]:
    """Faults by full keys at their places, one a key; a card that was made in Python has none."""
    if card.card_node is None:
        return [_make_unlocated(fault) for fault in keyed]
    placed = (pair for fault in keyed for pair in locate_fault(card.card_node, (), fault))
    return list({path: found for path, found in placed}.values())


def _make_unlocated(fault: Fault) -> LocatedFault:
    more = suggest_name(str(fault.value), fault.names) if fault.names else ""
    given = shorten(repr(fault.value)) if isinstance(fault.value, str) else quote_value(fault.value)
    return LocatedFault(0, "", f"{fault.key}: got {given}; {fault.text}{more}", tuple(fault.key.split(".")))


def _format_lines(found: Iterable[LocatedFault]) -> list[str]:
    ordered = sorted(found, key=lambda one: one.order)
    more = [f"... and {len(ordered) - MAX_FAULTS} more"] if len(ordered) > MAX_FAULTS else []
    return [one.format_line() for one in ordered[:MAX_FAULTS]] + more


def _remove_faults(kind: CardKind, root: CardNode) -> AnyCard | None:
    """The card of a tree from which values are taken away until none is at fault; None where too much goes."""
    for _ in range(ROUNDS):
        if not isinstance(root.value, dict):
            return None
        for key, value in kind.required.items():
            _fill_missing(root, key, value)
        try:
            card: AnyCard = kind.grammar.adapter.validate_json(json.dumps(root.to_plain()))
            return attach_node(card, root)
        except ValidationError as error:
            for path in _list_faulty_paths(root, error.errors(include_url=False)):
                if not path:
                    return None
                _remove_value(root, path)
    return None


def _fill_missing(root: CardNode, key: Sequence[str], value: int) -> None:
    """Put a value where the card has none though it must have one."""
    node: CardNode = root
    for i, name in enumerate(key, 1):
        if not isinstance(node.value, dict):
            return
        if name not in node.value:
            node.value[name] = CardNode(root.order, root.location, value if i == len(key) else {}, path=tuple(key[:i]))
        node = node.value[name]


def _list_faulty_paths(root: CardNode, errors: Iterable[Any]) -> list[tuple[str | int, ...]]:
    """Paths of the values that validation errors are about, the last entries of lists first."""
    paths = set()
    for error in errors:
        base = find_node(root, error["loc"])[1]
        keys: list[list[str]] = [f.key.split(".") for f in error["ctx"]["faults"]] if error["type"] == KIND else [[]]
        paths |= {find_node(root, (*base, *key))[1] for key in keys}
    return sorted(paths, key=lambda path: [int(p) if str(p).isdecimal() else 0 for p in path], reverse=True)


def _remove_value(root: CardNode, path: Sequence[str | int]) -> None:
    parent, _, _ = find_node(root, path[:-1])
    if isinstance(parent.value, dict):
        parent.value.pop(str(path[-1]), None)
    elif isinstance(parent.value, list) and int(path[-1]) < len(parent.value):
        parent.value.pop(int(path[-1]))


def refuse_inside(files: Mapping[str, FilePath], output: FilePath) -> None:
    """CardError for files, by the keys that name them, that lie in the run directory."""
    folder = FilePath(os.path.realpath(output))  # which takes a loop of links as it is
    inside = [key for key, path in files.items() if FilePath(os.path.realpath(path)).is_relative_to(folder)]
    if inside:
        raise CardError(*(f"{k}: {files[k]} lies in the run directory {output}, which may be replaced" for k in inside))
