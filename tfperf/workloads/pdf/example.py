"""The example card of a replica fit."""

from dataclasses import asdict
from pathlib import Path

from tfperf.runcard.dump import to_tree
from tfperf.runcard.example import format_example
from tfperf.runcard.memory import MemoryBudget
from tfperf.runcard.profile import Profile
from tfperf.runcard.sweep import Sweep
from tfperf.runcard.types import parse_replica_ids
from tfperf.workloads.pdf.card import Card, Closure, Data, Train
from tfperf.workloads.pdf.kind import KIND

OFF = ("closure", "profile", "sweep", "memory")  # keys that change what is done; shown as comments
HEAD = """\
# A fit of network replicas. Paths are relative to this file. Only replicas, data.pack and train.steps must be given:
# every other key may be left out, and then has the value shown here. `tfperf check` says what is wrong with a card.
"""


def format_example_card(pack: Path | str) -> str:
    """A card that fits all of a pack, with a comment for each key; `pack` is written as given."""
    ids, data, train = parse_replica_ids(100), Data(pack=Path(pack)), Train(steps=17_000)
    tree = to_tree(Card(title="An example", replicas=ids, data=data, train=train))
    tree["closure"], tree["profile"], tree["memory"] = asdict(Closure()), asdict(Profile()), asdict(MemoryBudget())
    tree["sweep"] = asdict(Sweep(keys={"train.optimizer.learning_rate": (1e-3, 2e-3)}))
    return HEAD + format_example(KIND.grammar, tree, OFF)
