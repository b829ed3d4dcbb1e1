"""In which order a sweep makes its trials, which of them look into their point, and what stands beside what."""

import json

import pytest

from tests.study.sweeps import notes, run, sweep_card
from tfperf.errors import RunDirectoryError
from tfperf.study.compare import compare
from tfperf.study.rows import rows
from tfperf.study.sweep_plan import plan


def test_the_seed_draws_an_order_for_each_repeat(tmp_path):
    def orders(*overrides):
        planned = plan(sweep_card(tmp_path, list("abcdefgh"), repeats=3), overrides)
        numbers = [trial.number for trial in planned.trials()]
        return [tuple(numbers[i : i + 8]) for i in (0, 8, 16)]

    first = orders()
    assert len(set(first)) == 3 and all(sorted(order) == list(range(1, 9)) for order in first)
    assert orders() == first and orders("sweep.repeats=4") == first and orders("seed=5") != first


def test_a_point_without_a_good_trial_is_looked_into_again(tmp_path):
    out = tmp_path / "out"
    run(sweep_card(tmp_path, ["die", "fine"], repeats=3), out)
    found = {name: [line[-1] for line in notes(out, "asked") if line[0] == name] for name in ("die", "fine")}
    assert found == {"die": ["True"] * 3, "fine": ["True", "False", "False"]}
    run(sweep_card(tmp_path, ["die", "fine"], repeats=4), out)
    assert [line[-1] for line in notes(out, "asked") if line[0] == "fine"][3:] == ["False"]


def test_a_proof_that_failed_is_known_by_its_error(tmp_path):
    out = tmp_path / "out"
    run(sweep_card(tmp_path, ["unproved"], repeats=1), out)
    (row,) = rows(out)
    assert row.error == "its placement was not proved: update of a: ran on CPU:0; b: is on CPU:1" and row.disproved
    assert not row.ok and row.record == {}


def test_what_an_earlier_version_measured_is_refused(tmp_path):
    card, out = sweep_card(tmp_path, repeats=1), tmp_path / "out"
    run(card, out)
    content = json.loads((out / "sweep.json").read_text())
    assert content.pop("layout") == 3
    (out / "sweep.json").write_text(json.dumps(content))
    with pytest.raises(RunDirectoryError, match="an earlier version of tfperf measured other steps here"):
        run(card, out)
    new = tmp_path / "new"
    run(card, new)
    with pytest.raises(RunDirectoryError, match="an earlier version of tfperf measured other steps here"):
        compare([out, new])
    for other in (2, 4):
        (out / "sweep.json").write_text(json.dumps(content | {"layout": other}))
        with pytest.raises(RunDirectoryError, match=f"layout: got {other}; .* measures and reads 3"):
            run(card, out)
