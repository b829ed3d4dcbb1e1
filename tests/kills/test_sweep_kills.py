"""Sweeps that are killed, and whose trials are killed: every trial once, with the losses that it has undisturbed."""

import json
import os
import random
import signal
import time
from contextlib import suppress
from itertools import count
from pathlib import Path

import h5py
import pytest

from tests.kills.lives import At, Grown, Writing, nothing_runs, tfperf
from tests.kills.sameness import PAGE
from tests.study.sweeps import wait_for
from tfperf.study.finished_trials import RESULTS, read_finished_trials

pytestmark = pytest.mark.slow
UNITS = [6, 8, 10, 12]
CARD = f"""\
workload: translate
data: {{fixed_length: 8, pairs: 120, vocabulary: 300, batch: 8}}
model: {{layers: 1}}
train: {{steps: 12, steps_per_call: 3}}
sweep: {{keys: {{model.units: {UNITS}}}, repeats: 1, warmup: 3, steps: 12}}
"""
TRIAL = "trial"  # an aim: not the sweep but one of its trials is killed


def begin(folder, out, *more):
    cache = {"TFPERF_CACHE": str(folder / "cache")}
    return tfperf("sweep", folder / "card.yaml", "-o", out, *more, log=out.with_suffix(".log.txt"), **cache)


def ended(life, out, codes):
    """Assert that the command ends so, and alone."""
    try:
        assert life.end() in codes, life.words
        nothing_runs(life, out)
    finally:
        life.clear()


def losses(out):
    """What each trial found, by what was swept; asserts that each has one good row and that the report is whole."""
    lines = [json.loads(line) for line in (out / RESULTS).read_text().splitlines()]
    good = [line["values"]["model.units"] for line in lines if not line["error"]]
    assert sorted(good) == UNITS and len({row.key for row in read_finished_trials(out)}) == len(
        read_finished_trials(out)
    ) == len(UNITS)
    report = json.loads((out / "sweep_report.json").read_text())
    assert report["trials"] == len(UNITS) and not report["failed"]
    assert [point["values"]["model.units"] for point in report["points"]] == UNITS
    with h5py.File(out / "results.h5") as file:
        assert file["values/model.units"][()].tolist() == UNITS and file["ok"][()].all()
    assert all(PAGE.fullmatch(page.read_text()) for page in out.glob("*.html")) and list(out.glob("*.html"))
    assert not list(out.rglob("*.tmp"))
    return {row.values["model.units"]: row.record["losses"] for row in read_finished_trials(out)}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Losses of a sweep that nobody disturbed, and seconds of a trial."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "card.yaml").write_text(CARD)
    ended(begin(folder, folder / "out"), folder / "out", (0,))
    return losses(folder / "out"), sum(row.seconds for row in read_finished_trials(folder / "out")) / len(UNITS)


def kill_a_trial(life, out):
    """Kill the running trial as the system does where memory is short; its row tells it. False: the sweep is over."""

    def found():
        for pid, name in life.processes().items():
            with suppress(OSError):
                parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
                if "tfperf.study.point" in name and parent == life.process.pid:
                    return pid
        return -1 if life.ended else None

    pid = wait_for(found, seconds=60)
    if pid < 0:
        return False
    grown = Grown(RESULTS)
    os.kill(pid, signal.SIGKILL)
    return grown.wait(life, out)


def killed(life, out):
    """Kill the sweep; False: it had ended in that moment."""
    life.kill()
    code = life.end(5)
    assert code in (-signal.SIGKILL, 0, 3), life.words
    nothing_runs(life, out)
    return code == -signal.SIGKILL


def disturb(folder, out, aims):
    """Begin a sweep again and again, until the last aim or its end; how it was disturbed."""
    found = []
    life = begin(folder, out)
    try:
        for aim in aims:
            if not (kill_a_trial(life, out) if aim == TRIAL else aim.wait(life, out) and killed(life, out)):
                break
            found.append(f"{aim}, {len(read_finished_trials(out))} rows, after {life.seconds:.1f} s")
            if aim != TRIAL:
                life = begin(folder, out)
        ended(life, out, (0, 3))
    finally:
        life.clear()
    return found


@pytest.mark.parametrize("seed", range(4))
def test_every_trial_is_done_once_whatever_is_killed(undisturbed, tmp_path, seed):
    want, seconds = undisturbed
    (tmp_path / "card.yaml").write_text(CARD)
    draw, begun, done = random.Random(seed), time.monotonic(), 0
    aims = [At(draw.uniform(0, 1.5 * seconds)), Grown(RESULTS), TRIAL, At(draw.uniform(0, 1.5 * seconds))]
    aims.append(Writing(draw.choice(["results.h5", "sweep_report.json"])))
    for number in count(1):
        out = tmp_path / f"out{number}"
        disturbances = disturb(tmp_path, out, aims[done:])
        failed = sum(not row.ok for row in read_finished_trials(out))
        ended(begin(tmp_path, out, "--retry-failed"), out, (0,))
        assert losses(out) == want
        print(f"\nsweep {seed}, {failed} rows of killed trials, {time.monotonic() - begun:.0f} s in all")
        print("\n".join(f"  {words}" for words in disturbances))
        done += len(disturbances)
        if done == len(aims):
            break
