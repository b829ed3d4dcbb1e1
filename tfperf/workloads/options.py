"""What a user asks of a fit beside the card."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tfperf.errors import CardError
from tfperf.runcard.kinds import AnyCard
from tfperf.runcard.nodes import shorten
from tfperf.runcard.places import replace_values
from tfperf.runcard.types import MAX_REPLICA, parse_replica_ids
from tfperf.workloads.registry import WORKLOADS

if TYPE_CHECKING:
    from tfperf.workloads.workload import Workload

NUMBER = re.compile("[1-9][0-9]{0,8}")


@dataclass(frozen=True)
class Options:
    """What the user asked for."""

    resume: bool = False
    force: bool = False
    retry_failed: bool = False
    replicas: tuple[int, ...] = ()  # of a new run instead of the card's; of a finished run, to be added
    attempt: int = 0  # of a fit within another: how often the training of its replicas was begun before

    @property
    def adds(self) -> bool:
        """Whether more is asked of a run than it has, or began with."""
        return self.retry_failed or bool(self.replicas)

    def describe(self) -> str:
        """As the command line has them: " --resume"."""
        asked = {"--resume": self.resume, "--force": self.force, "--retry-failed": self.retry_failed}
        more = f" --replicas ({len(self.replicas)} of them)" if self.replicas else ""
        return "".join(f" {flag}" for flag, given in asked.items() if given) + more

    def refuse_contradictions(self) -> None:
        """CardError for options that exclude each other."""
        if self.resume + self.force + self.retry_failed > 1:
            raise CardError("--resume, --force and --retry-failed exclude each other")
        if self.retry_failed and self.replicas:
            raise CardError("--retry-failed takes the replicas that failed; leave --replicas out")


def replace_replicas(card: AnyCard, ids: tuple[int, ...]) -> AnyCard:
    """The card with these replicas, where any are named. Raises: CardError for a card that has none."""
    if not ids:
        return card
    refuse_replicas(WORKLOADS.get_for_card(card), "--replicas")
    return replace_values(card, replicas=ids)


def refuse_replicas(workload: "Workload[Any]", flag: str) -> None:
    """CardError for an option that asks for replicas, where a workload's cards have none."""
    if not workload.has_replicas:
        raise CardError(f"{flag}: a card of workload {workload.name} has no replicas; leave it out")


def parse_replicas(text: str | None) -> tuple[int, ...]:
    """Ids that `--replicas` names: "20" or "101-200"; CardError for anything else."""
    if text is None:
        return ()
    try:
        return parse_replica_ids(int(text) if NUMBER.fullmatch(text) else text)
    except ValueError:
        given = shorten(repr(text[:100]))
        what = f"must be a number (20) or a range of ids (101-200), no id above {MAX_REPLICA}"
        raise CardError(f"--replicas: got {given}; {what}") from None
