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
OWN = {
    "pdf": "tfperf.workloads.pdf.workload", "translate": "tfperf.workloads.translate.workload",
    "keras": "tfperf.workloads.keras.workload", "predict": "tfperf.workloads.predict.workload",
}  # fmt: skip
VERBS = (
    "tfperf.workloads.pdf.commands",
    "tfperf.workloads.predict.commands",
)  # modules with the verbs of tfperf's own workloads


class Workloads:
    """All workloads, by the word under `workload` of a card."""

    default = "pdf"
    renamed: Mapping[str, str] = {"replicas": "pdf"}

    def list_names(self) -> Sequence[str]:
        """tfperf's own, then those of other packages by the alphabet."""
        return [*OWN, *sorted(set(_list_entry_points()) - set(OWN))]

    def get_kind(self, name: str) -> "CardKind":
        """What its cards may say. Raises: CardError where it cannot be loaded."""
        return self.get(name).kind

    def get(self, name: str) -> "Workload[Any]":
        """The workload of a name. Raises: CardError where there is none, and where it cannot be loaded."""
        return _get(name)

    def get_for_card(self, card: "AnyCard") -> "Workload[Any]":
        """The workload of a card."""
        return self.get(card.workload)

    def get_offering(self, verb: str, name: str) -> "Workload[Any]":
        """The workload of a name, which offers a verb. Raises: CardError that names those that do."""
        found = self.get(name)
        if found.has_verb(verb):
            return found
        others = [other for other in OWN if self.get(other).has_verb(verb)]
        does = f"{', '.join(others)} {'does' if len(others) == 1 else 'do'}"
        raise CardError(f"workload: got '{name}', which does not offer {verb}; {does}")

    def describe_origin(self, name: str) -> str:
        """Who offers the workload of a name."""
        return "tfperf" if name in OWN else _describe(_list_entry_points()[name])

    def list_shadowed(self) -> Sequence[str]:
        """Who offers a workload under the name of one of tfperf's own: nothing loads it."""
        return [f"{name}, of {_describe(points)}" for name, points in _list_entry_points().items() if name in OWN]

    def list_own_commands(self) -> "dict[str, click.Command]":
        """The verbs that tfperf's own workloads bring, by name."""
        commands = [command for module in VERBS for command in import_module(module).COMMANDS]
        return {command.name: command for command in commands}

    def find_command(self, name: str) -> "click.Command | None":
        """A verb of one of tfperf's own workloads, or all that the workload of another package brings, under its name.

        None: there is none. Raises: CardError where the workload cannot be loaded.
        """
        if found := self.list_own_commands().get(name):
            return found
        if name in OWN or name not in _list_entry_points():
            return None
        where = f"workload: '{name}', of {self.describe_origin(name)}"
        with convert_errors(f"{where}: its verbs cannot be made"):
            return self.get(name).make_group()


WORKLOADS = Workloads()


@lru_cache
def _list_entry_points() -> "dict[str, list[EntryPoint]]":
    from importlib.metadata import entry_points

    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=GROUP):
        found.setdefault(point.name, []).append(point)
    return found


@lru_cache
def _get(name: str) -> "Workload[Any]":
    if name in OWN:
        found: Workload[Any] = import_module(OWN[name]).WORKLOAD
        return found
    points = _list_entry_points().get(name)
    if points is None:
        new = WORKLOADS.renamed.get(name)
        why = f"is called {new} now" if new else f"allowed: {', '.join(WORKLOADS.list_names())}"
        raise CardError(f"workload: got '{name}'; {why}")
    return _load(name, points)


def _describe(points: "Sequence[EntryPoint]") -> str:
    """The distributions that entry points are of, and their values."""
    return " and ".join(f"{p.dist.name if p.dist is not None else 'a package'} ({p.value})" for p in points)


def format_error(error: BaseException) -> str:
    """What another package's code raised."""
    return " ".join([f"{type(error).__name__}:", *str(error).split()])


@contextmanager
def convert_errors(what: str) -> Iterator[None]:
    """Around another package's code: CardError for whatever it raises, even where that would end Python."""
    try:
        yield
    except (KeyboardInterrupt, Interrupted, UserError):
        raise
    except BaseException as error:
        raise CardError(f"{what}: {format_error(error)}") from error


def _load(name: str, points: "Sequence[EntryPoint]") -> "Workload[Any]":
    """The workload of another package. Raises: CardError for what is none, or of another version of the protocol."""
    from tfperf.runcard.kinds import CardKind
    from tfperf.workloads.workload import PROTOCOL, Workload

    where = f"workload: '{name}', of {_describe(points)}"
    if len(points) > 1:
        raise CardError(f"{where}: offered {len(points)} times; remove all but one of them")
    if not NAME.fullmatch(name):
        raise CardError(f"{where}: is no name; must be a letter, then letters, digits, - and _, at most 64 in all")
    with convert_errors(f"{where}: cannot be loaded"):
        found = points[0].load()
    if not isinstance(found, Workload):
        raise CardError(f"{where}: is a {type(found).__name__}; must be a tfperf.workloads.workload.Workload")
    protocol, own = (getattr(found, key, None) for key in ("protocol", "name"))
    if protocol != PROTOCOL:
        raise CardError(f"{where}: is written for protocol {protocol}; this tfperf has {PROTOCOL}")
    if own != name:
        raise CardError(f"{where}: calls itself '{own}'; both names must be the same")
    with convert_errors(f"{where}: its kind cannot be made"):
        kind = found.kind
    if not isinstance(kind, CardKind):
        raise CardError(f"{where}: its kind is a {type(kind).__name__}; must be a tfperf.runcard.kinds.CardKind")
    return found
