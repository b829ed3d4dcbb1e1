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
print("noise")
print(json.dumps({{"ms_step": [{ms}, 0, 9], "cpu_ms_step": {cpu}}}))
"""


def checkout(folder, log, ms, cpu):
    """A folder with a program in the place of the benchmark's own."""
    for part in ("benchmarks", "benchmarks/peer"):
        (folder / part).mkdir(parents=True)
        (folder / part / "__init__.py").touch()
    text = SCRIPT.format(log=str(log), name=folder.name, ms=ms, cpu=cpu)
    (folder / "benchmarks/peer/ours.py").write_text(text)
    return folder


def test_checkouts_take_turns_and_ratios_are_of_this_one(tmp_path, monkeypatch):
    log = tmp_path / "log"
    now, other = checkout(tmp_path / "now", log, 2.0, 6.0), checkout(tmp_path / "other", log, 4.0, 3.0)
    monkeypatch.setattr("benchmarks.steps.HERE", now)
    (row,) = MEASURE(against=other, only="dis:10", rounds=2)
    assert (row["ms"], row["other_ms"], row["ratio_ms"], row["ratio_ms_low"]) == (2.0, 4.0, 0.5, 0.5)
    assert (row["ratio_cpu_ms"], row["rounds"]) == (2.0, 2)
    arguments = "--size dis --replicas 10 --steps 5000"
    assert log.read_text().splitlines() == [f"now {arguments}", f"other {arguments}"] * 2


def test_what_cannot_be_compared_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"--only: got 'dis:7'; must be some of dis:1, dis:10,"):
        list(MEASURE(against=tmp_path, only="dis:7"))
    with pytest.raises(UserError, match="--rounds: got 1; must be at least 2"):
        list(MEASURE(against=tmp_path, rounds=1))
