"""What a step has to do at least."""

from typing import get_args

import pytest

from tfperf.place.policy import VariableDevices, describe_merge, resolve_devices, spread_by_size
from tfperf.place.work import SLOTS, VariableBytes, count_sent_bytes, count_update_bytes
from tfperf.runcard.model_optimizer import Rule
from tfperf.runcard.placement import Placement

DEVICES = ("d0", "d1", "d2")


def resolve(**keys):
    return resolve_devices(Placement(devices=3, **keys), "host", DEVICES, {"a": 10, "b": 8, "c": 7}, {"table": 100})


def test_whole_variables_are_spread_by_size():
    sizes = {"a": 10, "b": 8, "c": 7, "d": 2, "e": 1}
    assert spread_by_size(sizes, ("x", "y")) == {"a": "x", "b": "y", "c": "y", "d": "x", "e": "x"}


@pytest.mark.parametrize(
    ("keys", "name", "want"),
    [
        ({"preset": "Exp1"}, "a", VariableDevices(("host",), ("host",), ("d1",), "d1")),
        ({"preset": "Exp2"}, "table", VariableDevices(("host",), ("host",), ("host",), "host")),
        ({"preset": "Exp3"}, "table", VariableDevices(("host",), ("host",), ("host",), "host")),
        ({"preset": "Exp3"}, "a", VariableDevices(("d0",), ("d0",), ("d0",), "d0")),
        ({"preset": "Exp4"}, "table", VariableDevices(("d0",), ("d0",), ("d0",), "d0")),
        ({"variables": "device:2"}, "b", VariableDevices(("d2",), ("d2",), ("d2",), "d2")),
        ({"variables": "mirrored"}, "b", VariableDevices(DEVICES, DEVICES, DEVICES, "d2")),
        ({"slots": "host", "updates": "device:0"}, "b", VariableDevices(("d2",), ("host",), ("d0",), "d0")),
        ({"merge": "host"}, "a", VariableDevices(("d1",), ("d1",), ("d1",), "host")),
    ],
)
def test_devices_of_variables(keys, name, want):
    assert resolve(**keys)[name] == want


def test_towers_say_what_they_do_in_place_of_a_ring():
    assert "towers have no ring" in describe_merge(Placement(merge="ring"))
    assert describe_merge(Placement(merge="host")) == "summed on the host"


def test_updates_read_and_write_variables_and_slots():
    one = VariableBytes(VariableDevices(("x", "y"), ("x", "y"), ("x", "y"), "x"), 10, 10, 10)
    assert count_update_bytes([one], "SGD") == 2 * 3 * 10
    assert count_update_bytes([one], "Adam") == 2 * 7 * 10


def test_slots_are_known_of_every_optimizer():
    assert set(SLOTS) == set(get_args(Rule))


def test_what_crosses_the_busiest_border():
    host = VariableBytes(VariableDevices(("host",), ("host",), ("host",), "host"), 10, 10, 10)
    placement = Placement(devices=3, preset="Exp2")
    assert count_sent_bytes([host], placement, DEVICES, "Adam") == 3 * 10 + 3 * 10  # values out, gradients in
    away = VariableBytes(VariableDevices(("host",), ("host",), ("d1",), "d1"), 10, 10, 10)
    # host: three values out, one more for the update and its change, slots out and in
    assert count_sent_bytes([away], placement, DEVICES, "Adam") == 10 * (3 + 2 + 4)
    table = VariableBytes(VariableDevices(("host",), ("host",), ("host",), "host"), 1000, 5, 5)
    assert count_sent_bytes([table], placement, DEVICES, "SGD") == 3 * 5 + 3 * 5
    mirrored = VariableBytes(VariableDevices(DEVICES, DEVICES, DEVICES, "d0"), 9, 9, 9)
    ring = Placement(devices=3, engine="mirrored", merge="ring")
    assert count_sent_bytes([mirrored], ring, DEVICES, "SGD") == pytest.approx(2 * 2 / 3 * 9)
    one = Placement(devices=3, engine="mirrored")
    assert count_sent_bytes([mirrored], one, DEVICES, "SGD") == 2 * 2 * 9
