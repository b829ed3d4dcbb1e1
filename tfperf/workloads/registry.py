"""Which workloads there are: tfperf's own, and those that other packages register.

A package registers a workload by an entry point of the group `tfperf.workloads`: its name is the word under `workload`
of a card, its object a `Workload`. It is loaded when a card names it, so a broken one spoils no other.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from tfperf.errors import CardError
from tfperf.runcard.kinds import AnyCard, CardKind
from tfperf.workloads.workload import PROTOCOL, Workload

GROUP = "tfperf.workloads"
OWN = {"pdf": "tfperf.workloads.pdf.workload", "translate": "tfperf.workloads.translate.workload"}


class Workloads:
    """All workloads, by the word under `workload` of a card."""

    default = "pdf"
    renamed: Mapping[str, str] = {"replicas": "pdf"}

    def names(self) -> Sequence[str]:
        """tfperf's own, then those of other packages by the alphabet."""
        return [*OWN, *sorted(set(_registered()) - set(OWN))]

    def kind(self, name: str) -> CardKind:
        """What its cards may say. Raises: CardError where it cannot be loaded."""
        return self.find(name).kind

    def find(self, name: str) -> Workload[Any]:
        """The workload of a name. Raises: CardError where there is none, and where it cannot be loaded."""
        return _find(name)

    def of(self, card: AnyCard) -> Workload[Any]:
        """The workload of a card."""
        return self.find(card.workload)

    def offering(self, verb: str, card: AnyCard) -> Workload[Any]:
        """The workload of a card, which offers a verb. Raises: CardError that names those that do."""
        found = self.of(card)
        if found.offers(verb):
            return found
        others = [name for name in OWN if self.find(name).offers(verb)]
        raise CardError(f"workload: got '{card.workload}', which does not offer {verb}; {', '.join(others)} does")


WORKLOADS = Workloads()


@lru_cache
def _registered() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


@lru_cache
def _find(name: str) -> Workload[Any]:
    if name in OWN:
        found: Workload[Any] = import_module(OWN[name]).WORKLOAD
        return found
    point = _registered().get(name)
    if point is None:
        new = WORKLOADS.renamed.get(name)
        why = f"is called {new} now" if new else f"allowed: {', '.join(WORKLOADS.names())}"
        raise CardError(f"workload: got '{name}'; {why}")
    return _load(name, point)


def _load(name: str, point: EntryPoint) -> Workload[Any]:
    """The workload of another package. Raises: CardError for what is none, or of another version of the protocol."""
    package = point.dist.name if point.dist is not None else "a package"
    where = f"workload: '{name}', of {package} ({point.value})"
    try:
        found = point.load()
    except Exception as error:
        raise CardError(f"{where}: cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(found, Workload):
        raise CardError(f"{where}: is a {type(found).__name__}; must be a tfperf.workloads.workload.Workload")
    protocol, own = (getattr(found, key, None) for key in ("protocol", "name"))
    if protocol != PROTOCOL:
        raise CardError(f"{where}: is written for protocol {protocol}; this tfperf has {PROTOCOL}")
    if own != name:
        raise CardError(f"{where}: calls itself '{own}'; both names must be the same")
    return found
