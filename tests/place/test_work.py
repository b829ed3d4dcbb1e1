"""What a step has to do at least."""

from typing import get_args

import pytest

from tfperf.place.policy import Home, find_homes, merge_done, spread_by_size
from tfperf.place.work import SLOTS, Share, sent_bytes, update_bytes
from tfperf.runcard.descent import Rule
from tfperf.runcard.placement import Placement

DEVICES = ("d0", "d1", "d2")


def homes(**keys):
    return find_homes(Placement(devices=3, **keys), "host", DEVICES, {"a": 10, "b": 8, "c": 7}, {"table": 100})


def test_whole_variables_are_spread_by_size():
    sizes = {"a": 10, "b": 8, "c": 7, "d": 2, "e": 1}
    assert spread_by_size(sizes, ("x", "y")) == {"a": "x", "b": "y", "c": "y", "d": "x", "e": "x"}


@pytest.mark.parametrize(
    ("keys", "name", "home"),
    [
        ({"preset": "Exp1"}, "a", Home(("host",), ("host",), ("d1",), "d1")),
        ({"preset": "Exp2"}, "table", Home(("host",), ("host",), ("host",), "host")),
        ({"preset": "Exp3"}, "table", Home(("host",), ("host",), ("host",), "host")),
        ({"preset": "Exp3"}, "a", Home(("d0",), ("d0",), ("d0",), "d0")),
        ({"preset": "Exp4"}, "table", Home(("d0",), ("d0",), ("d0",), "d0")),
        ({"variables": "device:2"}, "b", Home(("d2",), ("d2",), ("d2",), "d2")),
        ({"variables": "mirrored"}, "b", Home(DEVICES, DEVICES, DEVICES, "d2")),
        ({"slots": "host", "updates": "device:0"}, "b", Home(("d2",), ("host",), ("d0",), "d0")),
        ({"merge": "host"}, "a", Home(("d1",), ("d1",), ("d1",), "host")),
    ],
)
def test_homes(keys, name, home):
    assert homes(**keys)[name] == home


def test_towers_say_what_they_do_in_place_of_a_ring():
    assert "towers have no ring" in merge_done(Placement(merge="ring"))
    assert merge_done(Placement(merge="host")) == "summed on the host"


def test_updates_read_and_write_variables_and_slots():
    one = Share(Home(("x", "y"), ("x", "y"), ("x", "y"), "x"), 10, 10, 10)
    assert update_bytes([one], "SGD") == 2 * 3 * 10
    assert update_bytes([one], "Adam") == 2 * 7 * 10


def test_slots_are_known_of_every_optimizer():
    assert set(SLOTS) == set(get_args(Rule))


def test_what_crosses_the_busiest_border():
    host = Share(Home(("host",), ("host",), ("host",), "host"), 10, 10, 10)
    placement = Placement(devices=3, preset="Exp2")
    assert sent_bytes([host], placement, DEVICES, "Adam") == 3 * 10 + 3 * 10  # values out, gradients in
    away = Share(Home(("host",), ("host",), ("d1",), "d1"), 10, 10, 10)
    # host: three values out, one more for the update and its change, slots out and in
    assert sent_bytes([away], placement, DEVICES, "Adam") == 10 * (3 + 2 + 4)
    table = Share(Home(("host",), ("host",), ("host",), "host"), 1000, 5, 5)
    assert sent_bytes([table], placement, DEVICES, "SGD") == 3 * 5 + 3 * 5
    mirrored = Share(Home(DEVICES, DEVICES, DEVICES, "d0"), 9, 9, 9)
    ring = Placement(devices=3, engine="mirrored", merge="ring")
    assert sent_bytes([mirrored], ring, DEVICES, "SGD") == pytest.approx(2 * 2 / 3 * 9)
    one = Placement(devices=3, engine="mirrored")
    assert sent_bytes([mirrored], one, DEVICES, "SGD") == 2 * 2 * 9
