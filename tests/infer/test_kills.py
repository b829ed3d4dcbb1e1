"""A prediction is killed again and again: nothing is lost, nothing is there twice, the file is the same."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import h5py
import numpy as np
import pytest

from tests.infer.killed import FILE, POINTS
from tests.infer.programs import make_truth
from tests.study.sweeps import ROOT

RECORDS = 6000
SECONDS = 0.01  # of a batch
QUICK = ("half of rows", "after sync")  # points that are tried always


def start(folder, records, *aim, seconds=SECONDS):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "BATCH_SECONDS": str(seconds)}
    words = [sys.executable, "-m", "tests.infer.killed", str(folder), str(records), *map(str, aim)]
    return subprocess.Popen(
        words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def finish(folder, records, seconds=0.0):
    """Go on to the end; the most memory of the parent [MB]."""
    process = start(folder, records, seconds=seconds)
    found, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    check(folder, records)
    return int(found) / 1e3


def check(folder, records):
    with h5py.File(folder / FILE) as file:
        assert file["finished"][0] == 1 and np.all(file["status"][:] == 1)
        np.testing.assert_array_equal(file["ids"][:], 10 * np.arange(records))
        np.testing.assert_array_equal(file["rows"][:], make_truth(records))


def list_children(process_id):
    """Processes that this one has started."""
    return [int(one) for one in Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split()]


def wait_until_gone(processes):
    """They end by themselves, once their parent is gone."""
    end = time.monotonic() + 30
    while alive := [one for one in processes if Path(f"/proc/{one}").exists()]:
        assert time.monotonic() < end, alive
        time.sleep(0.1)


def kill_at_random(folder, draws, seconds):
    """Kill the parent, one of its processes, or all of them at once, at some moment; what was killed."""
    process = start(folder, RECORDS)
    time.sleep(draws.uniform(0.2, seconds))
    if process.poll() is not None:
        process.communicate()
        return "nothing"
    children = list_children(process.pid)
    whom = draws.choice(["parent", "a child", "all"]) if children else "parent"
    if whom == "a child":
        os.kill(draws.choice(children), signal.SIGKILL)
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
        return whom
    for one in [process.pid, *(children if whom == "all" else [])]:
        os.kill(one, signal.SIGKILL)
    process.communicate()
    wait_until_gone(children)
    return whom


def kill_at_point(folder, point, count):
    process = start(folder, RECORDS, point, count)
    _, said = process.communicate(timeout=120)
    assert process.returncode in (-signal.SIGKILL, 0), said  # 0: there are not as many commits
    return point if process.returncode else "nothing"


@pytest.mark.parametrize("point", [pytest.param(one, marks=[] if one in QUICK else pytest.mark.slow) for one in POINTS])
def test_a_kill_at_each_point_of_a_commit_costs_what_was_not_in_the_journal(point, tmp_path):
    assert kill_at_point(tmp_path / "run", point, 4) == point
    finish(tmp_path / "run", RECORDS)


@pytest.mark.slow
def test_a_hundred_kills(tmp_path):
    draws, found, folder, runs = random.Random(1), Counter(), tmp_path / "run-0", 1
    whole = tmp_path / "whole"
    finish(whole, RECORDS)
    kills = 0
    while kills < 100:
        aimed = kills % 2 == 0
        name = kill_at_point(folder, draws.choice(POINTS), draws.randint(1, 12)) if aimed else kill_at_random(
            folder, draws, 4.0
        )  # fmt: skip
        found[name] += 1
        kills += name != "nothing"
        if name in ("nothing", "a child"):  # it came to its end
            finish(folder, RECORDS)
            assert (folder / FILE).read_bytes() == (whole / FILE).read_bytes()
            folder, runs = tmp_path / f"run-{runs}", runs + 1
    finish(folder, RECORDS)
    print(f"{dict(found)} in {runs} runs")


@pytest.mark.slow
def test_a_million_records_with_twenty_kills(tmp_path):
    draws, kills = random.Random(2), 0
    records, folder = 1_000_000, tmp_path / "run"
    while kills < 20:
        process = start(folder, records, seconds=0.004)
        time.sleep(draws.uniform(1.0, 3.0))
        if process.poll() is not None:
            break
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        kills += 1
    assert kills == 20
    print(f"memory of the last life {finish(folder, records):.0f} MB")


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_records(tmp_path):
    few, many = (finish(tmp_path / f"run-{records}", records) for records in (10_000, 1_000_000))
    print(f"{few:.0f} MB with 10 000 records, {many:.0f} MB with 1 000 000")
    assert many - few <= 50
