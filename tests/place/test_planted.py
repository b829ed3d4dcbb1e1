"""A program with a chain and an overlap planted in it: what is told of its trace."""

import json
import subprocess
import sys

import pytest

from tests.place.planted import CALLS, LESS, SLEEP, STEPS, TURNS

pytestmark = pytest.mark.slow  # a program of its own
CHAIN, PART = 1e3 * TURNS * SLEEP, 1e3 * LESS  # ms; sleeping takes no less


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    command = [sys.executable, "-m", "tests.place.planted", str(tmp_path_factory.mktemp("planted"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_longest_chain_is_the_planted_one(told):
    chain = told["critical"]
    assert told["steps"] == CALLS * STEPS and told["calls"] == CALLS
    assert CHAIN + PART <= chain["ms"] <= told["step_ms"]
    assert chain["loops_ms"] >= CHAIN and chain["loops_ms"] == pytest.approx(chain["phases"]["forward"], rel=0.01)
    assert chain["phases"]["merge"] >= PART and "update" not in chain["phases"]
    assert max(chain["kinds"], key=chain["kinds"].get) == "PyFuncStateless"
    assert chain["devices"]["device:0"] >= CHAIN and chain["devices"].get("device:1", 0.0) == 0.0


def test_what_runs_at_once_is_the_planted_overlap(told):
    second = told["devices"]["device:1"]
    assert second["busy"]["forward"] >= PART and second["busy"]["update"] >= PART
    assert second["overlaps"]["forward + update"] == pytest.approx(second["overlap"]) and second["overlap"] > PART / 2
    assert told["devices"]["device:0"]["overlap"] == 0.0


def test_the_second_device_waits_for_the_first_and_for_the_sum(told):
    second, first = told["devices"]["device:1"], told["devices"]["device:0"]
    assert list(second["waits"])[:2] == ["passes", "merge"] and second["waits"]["merge"] >= PART
    assert second["waits"]["passes"] >= CHAIN - 2 * PART
    assert next(iter(first["waits"])) == "merge" and first["busy"]["forward"] >= CHAIN


def test_parts_add_up_to_the_step_on_every_device_and_up_to_its_end(told):
    for one in told["devices"].values():
        whole = sum(one["busy"].values()) - one["overlap"] + one["waiting"]
        assert whole == pytest.approx(told["step_ms"], rel=1e-6)
    assert sum(told["course"].values()) == pytest.approx(told["step_ms"], rel=1e-6)
    assert told["course"]["chain"] >= CHAIN and told["course"]["merge"] >= PART
    assert told["unattributed"] < 0.1
