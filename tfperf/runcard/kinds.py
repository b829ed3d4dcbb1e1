"""Kinds of cards: what a card of one workload may say, and which of its keys name something on disk."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from tfperf.runcard.memory import MemoryBudget
from tfperf.runcard.nodes import CardNode
from tfperf.runcard.profile import Profile
from tfperf.runcard.schema import Grammar
from tfperf.runcard.sweep import Sweep

KeyPath = tuple[str, ...]


class AnyCard(Protocol):
    """What the card of every workload has: a frozen dataclass of pydantic's with these keys at least."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    card_node: ClassVar[CardNode | None]  # of a loaded card the tree that it came from

    @property
    def workload(self) -> str:
        """The workload's name."""

    @property
    def title(self) -> str:
        """What reports are headed with."""

    @property
    def seed(self) -> int:
        """The one seed that all draws derive from."""

    @property
    def profile(self) -> Profile | None:
        """Which steps of a fit are recorded."""

    @property
    def sweep(self) -> Sweep | None:
        """What `tfperf sweep` goes through."""

    @property
    def memory(self) -> MemoryBudget | None:
        """What `tfperf memory` may use."""


@dataclass(frozen=True)
class CardKind:
    """Cards of one workload.

    files: what the file is that a key names; globs: keys that name several files; code: keys that name a function,
    `file.py:function` or `module:function`; required: a value for each number that a card must give; folders: keys
    that name a run folder, with the words that may stand there instead, or, without words, a folder of files;
    uncompared_keys: of which the workload says itself whether a run that goes on may have others; data: keys that
    decide what its files can tell against a card; performance_keys: full keys that change how steps are computed, but
    not what.
    """

    grammar: Grammar[Any]
    files: Mapping[KeyPath, str] = field(default_factory=dict)
    required: Mapping[KeyPath, int] = field(default_factory=dict)
    folders: Mapping[KeyPath, tuple[str, ...]] = field(default_factory=dict)
    uncompared_keys: tuple[str, ...] = ()
    data: tuple[str, ...] = ("data",)
    performance_keys: tuple[str, ...] = ()
    code: tuple[KeyPath, ...] = ()
    globs: tuple[KeyPath, ...] = ()

    def make_card(self, tree: Mapping[str, Any]) -> Any:
        """The card of a tree that runcard/dump.py made, perhaps with other values. Raises: pydantic's error."""
        return self.grammar.adapter.validate_json(json.dumps(tree))


class Kinds(Protocol):
    """All kinds of cards, by the word under `workload`."""

    @property
    def default(self) -> str:
        """The kind of a card without that key."""

    @property
    def renamed(self) -> Mapping[str, str]:
        """Words of earlier versions, with what stands for them now."""

    def list_names(self) -> Sequence[str]:
        """All words that are allowed."""

    def get_kind(self, name: str) -> CardKind:
        """The kind of a name. Raises: CardError where what offers it cannot be loaded."""
