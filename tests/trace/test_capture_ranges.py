"""What a capture or a callback is asked for has limits, told before anything is recorded."""

import pytest

from tfperf.errors import UserError
from tfperf.trace.capture import Capture, capture


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"steps": 0}, "steps: got 0; must be a whole number from 1 to 100000000"),
        ({"steps": -1}, "steps: got -1; must be a whole number from 1 to"),
        ({"skip": -1}, "skip: got -1; must be a whole number from 0 to"),
        ({"host_level": 9}, "host_level: got 9; must be a whole number from 1 to 3"),
        ({"host_level": 0}, "host_level: got 0; must be a whole number from 1 to 3"),
        ({"steps_per_call": 0}, "steps_per_call: got 0; must be a whole number from 1 to"),
        ({"steps": 2.0}, "steps: got 2.0; must be a whole number"),
        ({"steps": True}, "steps: got True; must be a whole number"),
        ({"steps": None}, "steps: got None; must be a whole number"),
        ({"skip": "3"}, "skip: got '3'; must be a whole number"),
        ({"steps": 10**100}, "steps: got 1000"),
        ({"steps": 0, "skip": -1, "host_level": 9}, "steps: .*\nskip: .*\nhost_level: "),
    ],
)
def test_numbers_out_of_their_range_are_refused(arguments, words, tmp_path):
    with pytest.raises(UserError, match=words), capture(tmp_path / "log", **arguments):
        pytest.fail("it began")
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize("logdir", [None, 5, b"log", "a\0b"])
def test_a_log_directory_is_a_path(logdir):
    with pytest.raises(UserError, match=r"logdir: got .*; must be the path of a folder"), capture(logdir):
        pytest.fail("it began")


def test_the_ends_of_the_ranges_are_allowed(tmp_path):
    assert Capture(tmp_path, 1, 0, 3, turns=1).calls == 1
    assert Capture(tmp_path, 100_000_000, 100_000_000, 1, turns=None).host_level == 1
