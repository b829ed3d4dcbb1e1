"""Which workloads there are: tfperf's own, and those that other packages register.

A package registers a workload by an entry point of the group `tfperf.workloads`: its name is the word under `workload`
of a card, its object a `Workload`. It is loaded when a card or a verb names it, so a broken one spoils no other.
Nothing that takes long is imported here: the command line asks for verbs.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tfperf.errors import CardError, Interrupted, UserError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    import click

    from tfperf.runcard.kinds import AnyCard, CardKind
    from tfperf.workloads.workload import Workload

GROUP = "tfperf.workloads"
NAME = re.compile("[A-Za-z][A-Za-z0-9_-]{0,63}")
OWN = {"pdf": "tfperf.workloads.pdf.workload", "translate": "tfperf.workloads.translate.workload"}
VERBS = ("tfperf.workloads.pdf.commands",)  # modules with the verbs of tfperf's own workloads


class Workloads:
    """All workloads, by the word under `workload` of a card."""

    default = "pdf"
    renamed: Mapping[str, str] = {"replicas": "pdf"}

    def names(self) -> Sequence[str]:
        """tfperf's own, then those of other packages by the alphabet."""
        return [*OWN, *sorted(set(_registered()) - set(OWN))]

    def kind(self, name: str) -> "CardKind":
        """What its cards may say. Raises: CardError where it cannot be loaded."""
        return self.find(name).kind

    def find(self, name: str) -> "Workload[Any]":
        """The workload of a name. Raises: CardError where there is none, and where it cannot be loaded."""
        return _find(name)

    def of(self, card: "AnyCard") -> "Workload[Any]":
        """The workload of a card."""
        return self.find(card.workload)

    def offering(self, verb: str, name: str) -> "Workload[Any]":
        """The workload of a name, which offers a verb. Raises: CardError that names those that do."""
        found = self.find(name)
        if found.offers(verb):
            return found
        others = [other for other in OWN if self.find(other).offers(verb)]
        does = f"{', '.join(others)} {'does' if len(others) == 1 else 'do'}"
        raise CardError(f"workload: got '{name}', which does not offer {verb}; {does}")

    def origin(self, name: str) -> str:
        """Who offers the workload of a name."""
        return "tfperf" if name in OWN else _describe(_registered()[name])

    def shadowed(self) -> Sequence[str]:
        """Who offers a workload under the name of one of tfperf's own: nothing loads it."""
        return [f"{name}, of {_describe(points)}" for name, points in _registered().items() if name in OWN]

    def own_commands(self) -> "dict[str, click.Command]":
        """The verbs that tfperf's own workloads bring, by name."""
        commands = [command for module in VERBS for command in import_module(module).COMMANDS]
        return {command.name: command for command in commands}

    def command(self, name: str) -> "click.Command | None":
        """A verb of one of tfperf's own workloads, or all that the workload of another package brings, under its name.

        None: there is none. Raises: CardError where the workload cannot be loaded.
        """
        if found := self.own_commands().get(name):
            return found
        if name in OWN or name not in _registered():
            return None
        where = f"workload: '{name}', of {self.origin(name)}"
        with as_card_error(f"{where}: its verbs cannot be made"):
            return self.find(name).group()


WORKLOADS = Workloads()


@lru_cache
def _registered() -> "dict[str, list[EntryPoint]]":
    from importlib.metadata import entry_points

    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=GROUP):
        found.setdefault(point.name, []).append(point)
    return found


@lru_cache
def _find(name: str) -> "Workload[Any]":
    if name in OWN:
        found: Workload[Any] = import_module(OWN[name]).WORKLOAD
        return found
    points = _registered().get(name)
    if points is None:
        new = WORKLOADS.renamed.get(name)
        why = f"is called {new} now" if new else f"allowed: {', '.join(WORKLOADS.names())}"
        raise CardError(f"workload: got '{name}'; {why}")
    return _load(name, points)


def _describe(points: "Sequence[EntryPoint]") -> str:
    """The distributions that entry points are of, and their values."""
    return " and ".join(f"{p.dist.name if p.dist is not None else 'a package'} ({p.value})" for p in points)


def in_a_line(error: BaseException) -> str:
    """What another package's code raised."""
    return " ".join([f"{type(error).__name__}:", *str(error).split()])


@contextmanager
def as_card_error(what: str) -> Iterator[None]:
    """Around another package's code: CardError for whatever it raises, even where that would end Python."""
    try:
        yield
    except (KeyboardInterrupt, Interrupted, UserError):
        raise
    except BaseException as error:
        raise CardError(f"{what}: {in_a_line(error)}") from error


def _load(name: str, points: "Sequence[EntryPoint]") -> "Workload[Any]":
    """The workload of another package. Raises: CardError for what is none, or of another version of the protocol."""
    from tfperf.runcard.kinds import CardKind
    from tfperf.workloads.workload import PROTOCOL, Workload

    where = f"workload: '{name}', of {_describe(points)}"
    if len(points) > 1:
        raise CardError(f"{where}: offered {len(points)} times; remove all but one of them")
    if not NAME.fullmatch(name):
        raise CardError(f"{where}: is no name; must be a letter, then letters, digits, - and _, at most 64 in all")
    with as_card_error(f"{where}: cannot be loaded"):
        found = points[0].load()
    if not isinstance(found, Workload):
        raise CardError(f"{where}: is a {type(found).__name__}; must be a tfperf.workloads.workload.Workload")
    protocol, own = (getattr(found, key, None) for key in ("protocol", "name"))
    if protocol != PROTOCOL:
        raise CardError(f"{where}: is written for protocol {protocol}; this tfperf has {PROTOCOL}")
    if own != name:
        raise CardError(f"{where}: calls itself '{own}'; both names must be the same")
    with as_card_error(f"{where}: its kind cannot be made"):
        kind = found.kind
    if not isinstance(kind, CardKind):
        raise CardError(f"{where}: its kind is a {type(kind).__name__}; must be a tfperf.runcard.kinds.CardKind")
    return found
