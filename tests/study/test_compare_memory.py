"""Two memory studies of a made-up device side by side."""

import json
import shutil

import pytest
from click.testing import CliRunner

from tests.study.fake_memory import EACH
from tests.study.memory_cards import run_study
from tfperf.cli import main
from tfperf.errors import RunDirectoryError
from tfperf.study.compare_memory import compare_memory


def double(folder):
    """A copy of a study whose figures are twice as large."""
    path = folder / "memory.json"
    content = json.loads(path.read_text())
    mode = content["modes"]["train"]
    for point in mode["points"]:
        point |= {key: 2 * point[key] for key in ("least", "most", "ram_peak", "seconds_per_step")}
    mode["law"] |= {key: 2 * mode["law"][key] for key in ("fixed", "per_sample")}
    mode["largest"]["batch"] //= 2
    path.write_text(json.dumps(content))


def test_ratios_are_those_of_the_figures(tmp_path):
    run_study(tmp_path, "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    same, notes = compare_memory(tmp_path / "a", tmp_path / "b")
    assert same and not notes and all(change.amount == 1 for change in same)
    double(tmp_path / "b")
    changes = {change.name.partition(": ")[2]: change for change in compare_memory(tmp_path / "a", tmp_path / "b")[0]}
    peak = next(change for name, change in changes.items() if name.startswith("bytes at the peak"))
    assert (
        peak.amount == pytest.approx(2)
        and peak.verdict == "more"
        and peak.low is not None
        and peak.high is not None
        and peak.low < 2 < peak.high
    )
    assert changes["bytes a sample"].before == pytest.approx(EACH, rel=0.03)
    assert changes["bytes a sample"].amount == pytest.approx(2)
    assert [change.amount for name, change in changes.items() if "RAM" in name or "ms" in name] == [2, 2]
    assert changes["largest batch"].amount == pytest.approx(0.5, rel=0.01)
    said = CliRunner().invoke(main, ["compare", str(tmp_path / "a"), str(tmp_path / "b")])
    assert said.exit_code == 0 and "train: bytes a sample" in said.output and "x 2.0" in said.output


def test_other_rooms_are_told_and_unfinished_studies_refused(tmp_path):
    run_study(tmp_path, "a"), run_study(tmp_path, "b", budget=0.5)
    assert compare_memory(tmp_path / "a", tmp_path / "b")[1] == ["memory.budget: 536.9 MB, was 1.07 GB"]
    content = json.loads((tmp_path / "b" / "memory.json").read_text())
    content["modes"]["train"]["length"] = 40
    (tmp_path / "b" / "memory.json").write_text(json.dumps(content))
    notes = compare_memory(tmp_path / "a", tmp_path / "b")[1]
    assert notes[0] == "train: padded to a length of 40, was any"
    for broken in (
        {**content, "room": {}},
        {**content, "modes": {"train": content["modes"]["train"] | {"largest": {}}}},
    ):
        (tmp_path / "b" / "memory.json").write_text(json.dumps(broken))
        with pytest.raises(RunDirectoryError, match="damaged"):
            compare_memory(tmp_path / "a", tmp_path / "b")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "memory.json").write_text('{"trials": {}}')
    with pytest.raises(RunDirectoryError, match="not finished"):
        compare_memory(tmp_path / "a", tmp_path / "c")
    (tmp_path / "c" / "memory.json").write_text('{"modes": 3}')
    with pytest.raises(RunDirectoryError, match="damaged"):
        compare_memory(tmp_path / "a", tmp_path / "c")
