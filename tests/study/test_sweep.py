"""The sweep around its trials, which are small programs."""

import json
import os
import re
import signal
import subprocess
import sys
import threading

import h5py
import numpy as np
import pytest

from tests.study.sweeps import FAKE, ROOT, alive, environment, notes, run, sweep_card, wait_for
from tfperf.errors import CardError, RunDirectoryError, Stopped, StorageError, UserError
from tfperf.results.lock import DirectoryLock
from tfperf.study import trial_log
from tfperf.study.finished_trials import RESULTS, read_finished_trials
from tfperf.study.sweep_folder import SweepFolder
from tfperf.study.sweep_plan import plan_sweep

PROGRAM = "import sys; from tests.study.sweeps import run; from pathlib import Path; run(*map(Path, sys.argv[1:3]))"


def in_order(folder, titles, timeout=60):
    """A card of one repeat whose seed draws the points as they stand."""
    for seed in range(100):
        card = sweep_card(folder, titles, repeats=1, timeout=timeout)
        card.write_text(re.sub(r"^seed: \d+", f"seed: {seed}", card.read_text(), flags=re.M))
        if [trial.number for trial in plan_sweep(card, ()).list_trials()] == list(range(1, len(titles) + 1)):
            return card
    raise AssertionError("no seed draws this order")


def asked(folder):
    """Which trials were started, in their order: point and repeat."""
    return [name for _, name, *_ in notes(folder, "asked")]


def test_all_points_once_then_all_again(tmp_path):
    out = tmp_path / "out"
    report, shown = run(sweep_card(tmp_path, replicas=[1, 2]), out)
    order = [name.split("-") for name in asked(out)]
    assert [int(repeat) for _, repeat in order] == [1] * 4 + [2] * 4
    assert all(sorted(int(p) for p, _ in half) == [1, 2, 3, 4] for half in (order[:4], order[4:]))
    assert [entry[-3:] for entry in notes(out, "asked")] == [["10", "50", "True"]] * 4 + [["10", "50", "False"]] * 4
    values = [{"title": t, "replicas": r} for t in "ab" for r in (1, 2)]
    assert [trial.values for trial in read_finished_trials(out)] == [values[int(p) - 1] for p, _ in order]
    assert [point["values"] for point in report["points"]] == values
    assert report["trials"] == 8 and not report["failed"] and report["drift"]["trials"] == 8
    assert shown[0] == (0, 8, "starting") and re.fullmatch(r"title=. replicas=., repeat 2: 2 ms a step", shown[-1][2])
    third = re.compile(r"trial 3 of 8, \d+ (s|min) left, title=. replicas=., repeat 1")
    assert any(third.fullmatch(words) for *_, words in shown)
    with h5py.File(out / "results.h5") as file:
        place = {name: i for i, name in enumerate(asked(out), 1)}
        assert list(file["position"]) == [place[f"{p:04}-{r}"] for r in (1, 2) for p in (1, 2, 3, 4)]


def test_the_table_holds_values_times_and_errors(tmp_path):
    report, _ = run(sweep_card(tmp_path, ["a", "die"], replicas=[1, 2], repeats=1), tmp_path / "out")
    with h5py.File(tmp_path / "out" / "results.h5") as file:
        assert list(file["values/title"].asstr()) == ["a", "a", "die", "die"]
        assert list(file["values/replicas"]) == [1, 2, 1, 2] and list(file["ok"]) == [True, True, False, False]
        np.testing.assert_array_equal(file["ms_per_step"][0], [2.0, 1.8, 2.2])
        np.testing.assert_array_equal(file["samples"][:2], [[2.0, 1.8, 2.2]] * 2)
        assert np.isnan(file["samples"][2:]).all() and np.isnan(file["ms_per_step"][2:]).all()
        assert "boom" in file["error"].asstr()[2] and json.loads(file["record"].asstr()[0])["samples_ms"]
    assert json.loads((tmp_path / "out" / "sweep_report.json").read_text()) == report
    assert report["failed"] == 2 and report["points"][2]["errors"] == ["its process ended with 1: ValueError: boom"]


@pytest.mark.parametrize(
    ("title", "error"),
    [
        ("die", "its process ended with 1: ValueError: boom"),
        ("kill", "its process was killed by"),
        ("refuse", "refused: not that"),
        ("empty", "no ms_per_step"),
        ("hang", "timeout: not done after 1 s"),
    ],
)
def test_a_trial_that_fails_is_a_row_and_not_the_end(tmp_path, title, error):
    out = tmp_path / "out"
    report, shown = run(sweep_card(tmp_path, [title, "fine"], repeats=1, timeout=1), out)
    bad, good = sorted(read_finished_trials(out), key=lambda trial: trial.values["title"] == "fine")
    assert error in bad.error and bad.ms is None and good.ok and good.ms == 2.0
    assert report["failed"] == 1 and any(f"failed: {bad.error}" in words for *_, words in shown)
    assert not any(alive(int(pid)) for line in notes(out, "pids") for pid in line)


def test_what_is_refused_once_is_not_tried_again(tmp_path):
    card, out = sweep_card(tmp_path, ["refuse", "fine"], repeats=3), tmp_path / "out"
    report, _ = run(card, out)
    assert len(asked(out)) == 4 and report["failed"] == 3
    bad = [trial for trial in read_finished_trials(out) if trial.values["title"] == "refuse"]
    assert [one.error for one in bad] == ["refused: not that"] * 3 and sorted(one.repeat for one in bad) == [1, 2, 3]
    run(card, out, retry=True)
    assert len(asked(out)) == 5


def test_failed_trials_stay_until_they_are_asked_for(tmp_path):
    card, out = sweep_card(tmp_path, ["die", "fine"], repeats=2), tmp_path / "out"
    run(card, out)
    before = (out / RESULTS).read_bytes()
    again, _ = run(card, out)
    assert len(asked(out)) == 4 and (out / RESULTS).read_bytes() == before and again["failed"] == 2
    report, _ = run(card, out, retry=True)
    assert (
        sorted(asked(out)[4:]) == ["0001-1", "0001-2"] and report["failed"] == 2 and len(read_finished_trials(out)) == 4
    )
    assert [point["values"]["title"] for point in report["points"]] == ["die", "fine"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_running_trial_and_the_same_command_goes_on(tmp_path, number):
    card, out = in_order(tmp_path, ["a", "hang", "b"]), tmp_path / "out"
    threading.Thread(
        target=lambda: (wait_for(lambda: notes(out, "pids")), os.kill(os.getpid(), number)),  # type: ignore[func-returns-value]
        daemon=True,
    ).start()
    with pytest.raises(Stopped, match="the same command goes on") as stop:
        run(card, out)
    assert stop.value.exit_code == 128 + number and [trial.values["title"] for trial in read_finished_trials(out)] == [
        "a"
    ]
    assert not any(alive(int(pid)) for line in notes(out, "pids") for pid in line)
    report, _ = run(card, out, ["sweep.timeout=1"])
    assert asked(out) == ["0001-1", "0002-1", "0002-1", "0003-1"] and report["trials"] == 3


def test_nothing_outlives_a_killed_sweep_and_only_its_trial_is_redone(tmp_path):
    card, out = in_order(tmp_path, ["a", "hang", "b"], timeout=600), tmp_path / "out"
    program = [sys.executable, "-c", PROGRAM, str(card), str(out)]
    with subprocess.Popen(program, cwd=ROOT, env=environment(), stderr=subprocess.DEVNULL) as process:
        (pids,) = wait_for(lambda: notes(out, "pids"))
        assert all(alive(int(pid)) for pid in pids) and len(pids) == 2
        process.kill()
    wait_for(lambda: not any(alive(int(pid)) for pid in pids), seconds=5)
    assert [trial.values["title"] for trial in read_finished_trials(out)] == ["a"]
    report, _ = run(card, out, ["sweep.timeout=1"])
    assert asked(out) == ["0001-1", "0002-1", "0002-1", "0003-1"] and report["failed"] == 1


@pytest.mark.parametrize("cut", [1, 40])
def test_half_a_line_is_dropped_and_its_trial_redone(tmp_path, cut):
    card, out = sweep_card(tmp_path), tmp_path / "out"
    run(card, out)
    whole = (out / RESULTS).read_bytes()
    (out / RESULTS).write_bytes(whole[:-cut])
    assert len(read_finished_trials(out)) == 3
    run(card, out)
    assert asked(out)[4:] == asked(out)[3:4] and len(read_finished_trials(out)) == 4
    assert (out / RESULTS).read_bytes().count(b"\n") == 4


def test_a_damaged_line_in_the_middle_is_told(tmp_path):
    card, out = sweep_card(tmp_path), tmp_path / "out"
    run(card, out)
    lines = (out / RESULTS).read_text().splitlines()
    (out / RESULTS).write_text("\n".join([lines[0], lines[1][:-5], *lines[2:]]) + "\n")
    with pytest.raises(RunDirectoryError, match=r"results\.jsonl:2: damaged .*; remove the line"):
        run(card, out)


def test_what_another_sweep_measured_is_not_gone_on_with(tmp_path, monkeypatch):
    card, out = sweep_card(tmp_path), tmp_path / "out"
    run(card, out)
    with pytest.raises(RunDirectoryError, match="another card; choose another folder"):
        run(card, out, ["train.steps=61"])
    with pytest.raises(RunDirectoryError, match="another place"):
        run(card, out, on="local:1")
    with monkeypatch.context() as patch:
        patch.setattr(trial_log, "list_versions", lambda: {"tfperf": "9"})
        with pytest.raises(RunDirectoryError, match="another versions"):
            run(card, out)
    with open(tmp_path / "pack.h5", "ab") as file:
        file.write(b"\0")
    with pytest.raises(RunDirectoryError, match="another card"):
        run(card, out)


def test_more_repeats_add_to_what_is_there(tmp_path):
    card, out = sweep_card(tmp_path, repeats=1), tmp_path / "out"
    run(card, out)
    report, _ = run(card, out, ["sweep.repeats=3"])
    assert sorted(asked(out)) == [f"{p:04}-{r}" for p in (1, 2) for r in (1, 2, 3)] and report["trials"] == 6


def test_the_report_of_fewer_trials_does_not_stay(tmp_path, monkeypatch):
    def full(self, trial):
        raise StorageError("full")

    card, out = sweep_card(tmp_path, repeats=1), tmp_path / "out"
    run(card, out)
    with monkeypatch.context() as patch:
        patch.setattr(SweepFolder, "add", full)
        with pytest.raises(StorageError):
            run(card, out, ["sweep.repeats=2"])
    assert (
        not (out / "sweep_report.json").exists()
        and not (out / "results.h5").exists()
        and len(read_finished_trials(out)) == 2
    )


def test_a_folder_in_use_or_with_other_files_is_refused(tmp_path):
    card = sweep_card(tmp_path)
    with DirectoryLock(tmp_path / "held"), pytest.raises(RunDirectoryError, match="another process is running here"):
        run(card, tmp_path / "held")
    with pytest.raises(RunDirectoryError, match="is not empty and holds no sweep"):
        run(card, tmp_path)
    assert "sweep:" in card.read_text()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "sweep.json").write_text("{}")
    with pytest.raises(RunDirectoryError, match="damaged"):
        run(card, tmp_path / "out")


def test_a_full_disk_loses_the_running_trial_alone(tmp_path, monkeypatch):
    card, out = sweep_card(tmp_path, repeats=1), tmp_path / "out"
    count, sync = [], os.fsync

    def fails_later(descriptor):
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith(RESULTS):
            count.append(descriptor)
            if len(count) == 2:
                raise OSError(28, "No space left on device")
        sync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails_later)
        with pytest.raises(StorageError, match=r"results\.jsonl: could not be written: no space left"):
            run(card, out)
    assert len(read_finished_trials(out)) == 1 and (out / RESULTS).read_bytes().endswith(b"\n")
    run(card, out)
    first, second, again = asked(out)
    assert first != second == again and len(read_finished_trials(out)) == 2


def test_trials_at_once_are_as_many_as_the_card_says(tmp_path):
    card, out = sweep_card(tmp_path, ["hang 1", "hang 2", "hang 3"], repeats=1, timeout=2, at_once=2), tmp_path / "out"
    _, shown = run(card, out)
    first_end = next(i for i, (done, *_) in enumerate(shown) if done == 1)
    assert sum("trial" in words for *_, words in shown[:first_end]) == 2 and len(read_finished_trials(out)) == 3


@pytest.mark.parametrize(
    ("overrides", "fault"),
    [
        (["sweep.keys={engine.prec: [1]}"], r"engine\.prec: unknown key"),
        (["sweep=null"], "sweep: missing"),
        (["data.t0=fit"], r"--set data\.t0=fit: data\.t0: got 'fit'; .*allowed in a sweep"),
        (
            ["sweep.keys={engine.threads: [1, measure]}"],
            r"--set .*: engine\.threads: got 'measure'; allowed",
        ),
    ],
)
def test_a_faulty_card_is_refused_before_a_folder_is_made(tmp_path, overrides, fault):
    with pytest.raises(CardError, match=fault):
        run(sweep_card(tmp_path), tmp_path / "out", overrides)
    assert not (tmp_path / "out").exists()


def test_a_faulty_place_is_refused_before_a_folder_is_made(tmp_path):
    with pytest.raises(UserError, match="--on: got 'slrm'; allowed: local:N, slurm"):
        run(sweep_card(tmp_path), tmp_path / "out", on="slrm")
    assert not (tmp_path / "out").exists()


def test_the_trial_is_not_told_who_started_it_twice(tmp_path):
    run(sweep_card(tmp_path, ["a"], repeats=1), tmp_path / "out")
    assert read_finished_trials(tmp_path / "out")[0].record["environment"] == [] and FAKE[0] == sys.executable
