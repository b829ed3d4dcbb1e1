"""Replicas of one step that have more to do than the others."""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from tfperf.trace.phases import PHASES
from tfperf.trace.rules.rule import Cost, Rule

if TYPE_CHECKING:
    from tfperf.trace.attribution import Attribution

TOWER = re.compile(r"(?P<device>.*) (?P<kind>tower|replica)_(?P<number>\d+)")
NUMBERED = re.compile(r"(?P<device>.*):\d+")
OWN = [PHASES.index("forward"), PHASES.index("backward")]
MORE = 1.3  # times the work of the others


def find(found: "Attribution") -> Iterator[Cost]:
    """What the one with most work has more than the mean of the others: they wait for it."""
    for work in _group_replicas(
        {device: float(busy[:, OWN].sum(axis=1).mean()) for device, busy in found.busy.items()}
    ):
        slowest = max(work, key=lambda device: work[device])
        others = float(np.mean([ms for device, ms in work.items() if device != slowest]))
        if work[slowest] > MORE * others:
            more = work[slowest] - others
            yield Cost(
                f"{slowest} has {work[slowest]:.3g} ms of work a step, the others {others:.3g}: they wait for it",
                more, more * (len(work) - 1) / len(work), more,
            )  # fmt: skip


def _group_replicas(work: Mapping[str, float]) -> Iterator[dict[str, float]]:
    """Replicas of one step with their work: towers of a processor, or accelerators; the first may have no name."""
    groups: dict[tuple[str, str], dict[str, float]] = {}
    for name, ms in work.items():
        if found := TOWER.fullmatch(name):
            groups.setdefault((found["device"], found["kind"]), {})[name] = ms
        elif numbered := NUMBERED.fullmatch(name):
            groups.setdefault((numbered["device"], ""), {})[name] = ms
    for (device, kind), mine in groups.items():
        if kind == "replica" and f"{device} replica_0" not in mine and device in work:
            mine[device] = work[device]
    return (mine for mine in groups.values() if len(mine) > 1)


SPREAD = "give all replicas the same work: batches of one size and length, and layers split evenly"
RULE = Rule(
    "straggler", "One replica has more work", find,
    {
        "engine": SPREAD, "card": SPREAD, "keras": SPREAD, "loop": SPREAD,
        "jax": SPREAD,
    },
    before="data = data.batch(64)  # the longest sample of a replica decides",
    after="data = data.bucket_by_sequence_length(len_of, [32, 64, 128], [64] * 4)",
)  # fmt: skip
