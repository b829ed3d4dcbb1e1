"""Faults in a card's values that only its files can tell, reported where the values were written."""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any, TypeVar

from pydantic import ValidationError

from tfperf.errors import CardError
from tfperf.runcard.explain import offered, place, walk
from tfperf.runcard.faults import KIND, Fault
from tfperf.runcard.kinds import AnyCard, CardKind
from tfperf.runcard.nodes import Found, Node, quoted, shortened

MAX_FAULTS = 100
ROUNDS = 5  # what is left out of a card may bring out further faults
Path = tuple[str, ...]
C = TypeVar("C", bound=AnyCard)


def with_source(card: C, root: Node) -> C:
    """The card itself, which knows from now on where its values were written; that is no part of its value."""
    object.__setattr__(card, "source", root)
    return card


def changed(card: C, **changes: Any) -> C:
    """The card with other values for some of its blocks; it still knows where the rest was written."""
    other: C = replace(card, **changes)
    return other if card.source is None else with_source(other, card.source)


def refused(found: Iterable[Found]) -> CardError:
    """The error of some faults, in the order of the card's lines."""
    return CardError(*_lines(found))


class UnfitCard(CardError):
    """A card that is valid by itself, but asks for what its files do not have. `keyed`: the faults, by full keys."""

    def __init__(self, card: AnyCard, keyed: Sequence[Fault]) -> None:
        super().__init__(*_lines(place_faults(card, keyed)))
        self.keyed = keyed


class FaultyCard(CardError):
    """A card with faults of its own."""

    def __init__(self, found: Sequence[Found], kind: CardKind, root: Node) -> None:
        super().__init__(*_lines(found))
        self.found, self.kind, self.root = found, kind, root

    def joined(
        self, card: AnyCard, keyed: Iterable[Fault], is_certain: Callable[[Fault, Path, Set[Path]], bool]
    ) -> CardError:
        """The error of these faults and of those that the files of the `rest` tell.

        None of a value that is refused here, and none that is not certain: is_certain(fault, its path, refused paths).
        """
        known = {one.path for one in self.found}
        more = [(fault, one) for fault in keyed for one in place_faults(card, [fault]) if one.path not in known]
        return refused([*self.found, *(one for fault, one in more if is_certain(fault, one.path, known))])

    def rest(self) -> AnyCard | None:
        """The card without its faulty values; None: nothing is left that could be held against its files."""
        return _without_faults(self.kind, self.root)


def place_faults(card: AnyCard, keyed: Iterable[Fault]) -> list[Found]:
    """Faults by full keys at their places, one a key; a card that was made in Python has none."""
    if card.source is None:
        return [_unplaced(fault) for fault in keyed]
    placed = (pair for fault in keyed for pair in place(card.source, (), fault))
    return list({path: found for path, found in placed}.values())


def _unplaced(fault: Fault) -> Found:
    more = offered(str(fault.value), fault.names) if fault.names else ""
    given = shortened(repr(fault.value)) if isinstance(fault.value, str) else quoted(fault.value)
    return Found(0, "", f"{fault.key}: got {given}; {fault.text}{more}", tuple(fault.key.split(".")))


def _lines(found: Iterable[Found]) -> list[str]:
    ordered = sorted(found, key=lambda one: one.rank)
    more = [f"... and {len(ordered) - MAX_FAULTS} more"] if len(ordered) > MAX_FAULTS else []
    return [one.line() for one in ordered[:MAX_FAULTS]] + more


def _without_faults(kind: CardKind, root: Node) -> AnyCard | None:
    """The card of a tree from which values are taken away until none is at fault; None where too much goes."""
    for _ in range(ROUNDS):
        if not isinstance(root.value, dict):
            return None
        for key, value in kind.must.items():
            _complete(root, key, value)
        try:
            card: AnyCard = kind.grammar.adapter.validate_json(json.dumps(root.plain()))
            return with_source(card, root)
        except ValidationError as error:
            for path in _at_fault(root, error.errors(include_url=False)):
                if not path:
                    return None
                _take_away(root, path)
    return None


def _complete(root: Node, key: Sequence[str], value: int) -> None:
    """Put a value where the card has none though it must have one."""
    node: Node = root
    for i, part in enumerate(key, 1):
        if not isinstance(node.value, dict):
            return
        if part not in node.value:
            node.value[part] = Node(root.rank, root.place, value if i == len(key) else {}, path=tuple(key[:i]))
        node = node.value[part]


def _at_fault(root: Node, errors: Iterable[Any]) -> list[tuple[str | int, ...]]:
    """Paths of the values that validation errors are about, the last entries of lists first."""
    paths = set()
    for error in errors:
        block = walk(root, error["loc"])[1]
        keys: list[list[str]] = [f.key.split(".") for f in error["ctx"]["faults"]] if error["type"] == KIND else [[]]
        paths |= {walk(root, (*block, *key))[1] for key in keys}
    return sorted(paths, key=lambda path: [int(p) if str(p).isdecimal() else 0 for p in path], reverse=True)


def _take_away(root: Node, path: Sequence[str | int]) -> None:
    parent, _, _ = walk(root, path[:-1])
    if isinstance(parent.value, dict):
        parent.value.pop(str(path[-1]), None)
    elif isinstance(parent.value, list) and int(path[-1]) < len(parent.value):
        parent.value.pop(int(path[-1]))


def refuse_inside(files: Mapping[str, FilePath], output: FilePath) -> None:
    """CardError for files, by the keys that name them, that lie in the run directory."""
    within = FilePath(os.path.realpath(output))  # which takes a loop of links as it is
    inside = [key for key, path in files.items() if FilePath(os.path.realpath(path)).is_relative_to(within)]
    if inside:
        raise CardError(*(f"{k}: {files[k]} lies in the run directory {output}, which may be replaced" for k in inside))
