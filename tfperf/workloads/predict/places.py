"""Where the workers of a prediction run: on this machine, or on members of another place."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tfperf.cluster.site import Site, parse_site
from tfperf.infer.dispatch_records import Slot
from tfperf.infer.launchers import Launcher, LocalLauncher
from tfperf.infer.member_launcher import MemberLauncher
from tfperf.workloads.predict.card import PredictCard
from tfperf.workloads.predict.slots import make_member_slots, make_slots


@dataclass(frozen=True)
class WorkPlace:
    """A slot for each worker, and who starts these."""

    slots: Sequence[Slot]
    launcher: Launcher


def parse_place(on: str | None) -> Site | None:
    """What `--on` names; None: this machine, without Dask. One member where it gives no number. Raises: UserError."""
    return None if on is None else parse_site(on, at_once=1)


@contextmanager
def open_place(card: PredictCard, site: Site | None, is_begun: bool) -> Iterator[WorkPlace]:
    """The place, of which no worker runs when its context is left.

    is_begun: whether its folder has a part of the prediction: members are asked for when the first is needed then,
    which may be never; now otherwise, so that an error comes before anything is written. Raises: CardError for
    devices, UserError where the place cannot be had.
    """
    if site is None:
        slots = make_slots(card)
        yield WorkPlace(slots, LocalLauncher(slots))
        return
    members = make_member_slots(card, site.workers or 1)
    launcher = MemberLauncher(site, members)
    try:
        if not is_begun:
            launcher.open()
        yield WorkPlace(members, launcher)
    finally:
        launcher.close()
