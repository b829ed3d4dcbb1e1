"""The comparison of two checkouts, with small scripts in their place."""

import pytest

from benchmarks import steps as steps
from benchmarks.registry import REGISTRY
from tfperf.errors import UserError

MEASURE = REGISTRY["steps"].measure
SCRIPT = """
import json, pathlib, sys
log = pathlib.Path({log!r})
log.open("a").write({name!r} + " " + " ".join(sys.argv[1:]) + "\\n")
for turn, _ in enumerate(sys.stdin):
    log.open("a").write({name!r} + "\\n")
    if turn > {last}:
        sys.exit("no memory left")
    print("noise")
    print(json.dumps({{"ms_step": {ms} * 10 ** (turn == 0), "cpu_ms_step": {cpu}}}), flush=True)
"""


def checkout(folder, log, ms, cpu, last=9):
    """A folder with a program in the place of the benchmark's own: slow at first, it takes `last` more turns."""
    for part in ("benchmarks", "benchmarks/peer"):
        (folder / part).mkdir(parents=True)
        (folder / part / "__init__.py").touch()
    text = SCRIPT.format(log=str(log), name=folder.name, ms=ms, cpu=cpu, last=last)
    (folder / "benchmarks/peer/ours.py").write_text(text)
    return folder


def test_checkouts_take_turns_and_ratios_are_of_this_one(tmp_path, monkeypatch):
    log = tmp_path / "log"
    now, other = checkout(tmp_path / "now", log, 2.0, 6.0), checkout(tmp_path / "other", log, 4.0, 3.0)
    monkeypatch.setattr("benchmarks.steps.HERE", now)
    (row,) = MEASURE(against=other, only="dis:10", rounds=2, turns=2)
    assert (row["ms"], row["other_ms"], row["ratio_ms"], row["ratio_ms_low"]) == (2.0, 4.0, 0.5, 0.5)
    assert (row["ratio_cpu_ms"], row["rounds"], row["turns"]) == (2.0, 2, 2)
    lines = log.read_text().splitlines()
    arguments = "--size dis --replicas 10 --steps 1000 --turns"
    assert sorted(lines) == sorted([f"now {arguments}", f"other {arguments}"] * 2 + ["now", "other"] * 6)
    turns = [line for line in lines if line in ("now", "other")]
    assert turns == ["other", "now", "now", "other", "other", "now"] * 2  # each begins as often, but for the first


def test_a_version_that_ends_is_told_with_its_last_words(tmp_path, monkeypatch):
    log = tmp_path / "log"
    now, other = checkout(tmp_path / "now", log, 2.0, 6.0), checkout(tmp_path / "other", log, 4.0, 3.0, last=1)
    monkeypatch.setattr("benchmarks.steps.HERE", now)
    with pytest.raises(UserError, match=r"other: benchmarks.peer.ours ended with 1:\nno memory left"):
        list(MEASURE(against=other, only="dis:10", rounds=2, turns=5))


def test_what_cannot_be_compared_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"--only: got 'dis:7'; must be some of dis:1, dis:10,"):
        list(MEASURE(against=tmp_path, only="dis:7"))
    with pytest.raises(UserError, match="--rounds: got 1; must be at least 2"):
        list(MEASURE(against=tmp_path, rounds=1))
    with pytest.raises(UserError, match="--turns: got 0; must be at least 1"):
        list(MEASURE(against=tmp_path, turns=0))
