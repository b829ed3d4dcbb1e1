"""Programs that do not do what their placement says are noticed."""

import json
import re

import pytest

from tests.place.cheats import CHEATS
from tests.place.clusters import CHEATING, carry_out

TOGETHER = (  # in one program, which is quick; each is told by a fault of its own
    "clipping_on_another_device", "update_in_a_function_that_stays_one", "weights_round_the_host",
    "a_device_that_idles", "work_in_python_without_operands",
)  # fmt: skip


def programs(folder, cards):
    """The faults of programs."""
    carry_out(folder, cards, CHEATING)
    return json.loads((folder / "faults.json").read_text())


def notices(faults, name):
    return any(re.search(CHEATS[name].fault, fault) for fault in faults)


def test_there_are_cheats_of_many_kinds():
    assert len(CHEATS) >= 20 and len({cheat.kind for cheat in CHEATS.values()}) >= 6


@pytest.mark.slow
def test_cheats_of_several_kinds_are_noticed_in_one_program(tmp_path):
    overrides = dict.fromkeys(override for name in TOGETHER for override in CHEATS[name].overrides)
    (faults,) = programs(tmp_path, {"+".join(TOGETHER): list(overrides)}).values()
    assert [name for name in TOGETHER if not notices(faults, name)] == []


@pytest.mark.slow
def test_every_cheat_is_noticed_alone_and_no_honest_program_is_accused_of_it(tmp_path):
    cards = {name: cheat.overrides for name, cheat in CHEATS.items()}
    honest = {f"honest {' '.join(overrides)}": overrides for overrides in set(cards.values())}
    found = programs(tmp_path, cards | honest)
    assert {name: found[name] for name in honest if found[name]} == {}
    assert {name: found[name] for name in cards if not notices(found[name], name)} == {}
