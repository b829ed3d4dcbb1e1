"""The faults of programs whose placement is not what their card asks for, and of honest ones.

python -m tests.place.cheats FOLDER: overrides by name on stdin; the faults of each to FOLDER.
"""

import json
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.place.cheating import copies as copies
from tests.place.cheating import hiding as hiding
from tests.place.cheating import passes as passes
from tests.place.cheating import repeats as repeats
from tests.place.cheating import updates as updates
from tests.place.cheating.cheat import CHEATS as CHEATS
from tests.place.child import make_feed
from tests.runcard.cards import write
from tfperf.place import strategies
from tfperf.place.devices import make_devices
from tfperf.place.engine import take_steps
from tfperf.place.graphs import record_step
from tfperf.place.proof import prove_engine
from tfperf.workloads.cards import load_card
from tfperf.workloads.translate.trainable import build_engine

CARD = """\
workload: translate
data: {fixed_length: 9, vocabulary: 300}
model: {units: 32, layers: 1}
train: {steps: 100, optimizer: {learning_rate: 0.01}}
placement: {devices: 2}
"""


def faults(card, cheats=()):
    """The faults of a card's program, parts of which are replaced."""
    with pytest.MonkeyPatch.context() as patch:
        for one in cheats:
            one.replace(patch)
        devices = make_devices(card.placement)
        rows, every = make_feed(card, len(devices), alone=False)
        engine = build_engine(card, rows, devices)
        iterator = iter(every())
        take_steps(engine, iterator, 1)
        return prove_engine(engine, record_step(lambda: take_steps(engine, iterator, 1))).faults


def main():
    """Find the faults of programs by name: the names of cheats, and overrides of the card."""
    folder, found = Path(sys.argv[1]), {}
    strategies.build_strategy = cache(strategies.build_strategy)  # the same group of devices has one
    for name, overrides in json.load(sys.stdin).items():
        cheats = [CHEATS[one] for one in name.split("+") if one in CHEATS]
        card = load_card(write(folder, CARD, "card.yaml"), list(overrides))
        found[name] = faults(card, cheats)
    (folder / "faults.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
