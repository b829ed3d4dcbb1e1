"""In which order a sweep makes its trials, which of them look into their point, and what stands beside what."""

import json
from concurrent.futures import Future

import pytest

from tests.study.sweeps import notes, run, sweep_card
from tfperf.errors import CardError, RunDirectoryError, StorageError
from tfperf.study import sweep as module
from tfperf.study.compare import compare_folders
from tfperf.study.finished_trials import RESULTS, FinishedTrial, read_finished_trials
from tfperf.study.placements import write_report
from tfperf.study.sweep_folder import read_current_trials
from tfperf.study.sweep_plan import plan_sweep


def test_the_seed_draws_an_order_for_each_repeat(tmp_path):
    def orders(*overrides):
        planned = plan_sweep(sweep_card(tmp_path, list("abcdefgh"), repeats=3), overrides)
        numbers = [trial.number for trial in planned.list_trials()]
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
    (row,) = read_finished_trials(out)
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
        compare_folders([out, new])
    for other in (2, 4):
        (out / "sweep.json").write_text(json.dumps(content | {"layout": other}))
        with pytest.raises(RunDirectoryError, match=f"layout: got {other}; .* measures and reads 3"):
            run(card, out)


def test_rows_that_the_sweep_does_not_have_are_in_no_table(tmp_path, monkeypatch):
    card, out = sweep_card(tmp_path, repeats=3), tmp_path / "out"
    run(card, out)
    with open(out / RESULTS, "a") as file:
        file.write(
            FinishedTrial({"title": "z", "replicas": 9}, 1, 1.0, {"ms_per_step": {"median": 1.0}}).format_line() + "\n"
        )
    report, _ = run(card, out, ["sweep.repeats=2"])
    assert report["trials"] == 4 and len(read_finished_trials(out)) == 7
    rows, seen = read_current_trials(out), []
    assert sorted((row.values["title"], row.repeat) for row in rows) == [(t, r) for t in "ab" for r in (1, 2)]
    monkeypatch.setattr("tfperf.study.placements.make_placement_rows", lambda found, how: seen.extend(found) or [])  # type: ignore[func-returns-value]
    write_report(out, report)
    assert seen == rows
    with open(out / RESULTS, "w") as file:  # as many lines as trials, but not of these
        file.writelines(row.format_line() + "\n" for row in [*rows[:3], FinishedTrial({"title": "z"}, 1, 1.0, {}, "x")])
    with pytest.raises(RunDirectoryError, match="not finished, 3 of 4"):
        compare_folders([out, out])


@pytest.mark.parametrize("name", ["results.h5", "sweep_report.json", "report.html", "trials"])
def test_what_stands_in_the_way_is_told_before_the_first_trial(tmp_path, name):
    card, out = sweep_card(tmp_path, repeats=1), tmp_path / "out"
    run(card, out)
    (out / RESULTS).unlink()
    asked = len(notes(out, "asked"))
    if name == "trials":
        (out / name).rename(tmp_path / name)
        (out / name).touch()
    else:
        (out / name).unlink(missing_ok=True)
        (out / name).mkdir()
    with pytest.raises(StorageError, match=rf"{name}: c(annot be made a folder|ould not be removed)"):
        run(card, out)
    assert not (out / RESULTS).exists() and len(notes(tmp_path if name == "trials" else out, "asked")) in (0, asked)


def test_reports_of_fewer_repeats_are_gone_once_more_are_made(tmp_path):
    card, out = sweep_card(tmp_path, ["hang"], repeats=1), tmp_path / "out"
    run(card, out, ["sweep.timeout=0.1"])
    made = ["report.html", "placements.json"]
    for name in made:
        (out / name).touch()
    run(card, out, ["sweep.timeout=0.1", "sweep.repeats=2"])
    assert not any((out / name).exists() for name in made)


def test_columns_that_a_table_does_not_have_are_told_before_the_first_trial(tmp_path):
    (tmp_path / "pairs.tsv").write_text("english\tgerman\na\tb\n")
    card = tmp_path / "card.yaml"
    card.write_text(
        "workload: translate\ndata:\n  training: {table: pairs.tsv, columns: [english, germany]}\ntrain: {steps: 10}\n"
        "sweep: {keys: {model.units: [4, 8]}}\n"
    )
    with pytest.raises(CardError, match=r"card\.yaml:3: data\.training\.columns\.1: .*did you mean `german`") as caught:
        plan_sweep(card, ())
    assert len(caught.value.faults) == 1


def test_rows_of_another_program_are_refused(tmp_path, monkeypatch):
    card, out = sweep_card(tmp_path, repeats=2), tmp_path / "out"
    run(card, out)
    monkeypatch.setattr(module, "digest_program", lambda: "another")
    with pytest.raises(RunDirectoryError, match="measured with another program"):
        run(card, out)


def test_a_program_that_is_changed_meanwhile_ends_the_sweep(tmp_path, monkeypatch):
    card, out, digests = sweep_card(tmp_path, repeats=2), tmp_path / "out", iter("aaab")
    monkeypatch.setattr(module, "digest_program", lambda: next(digests))
    with pytest.raises(RunDirectoryError, match="the program was changed since this command began"):
        run(card, out)
    assert len(read_finished_trials(out)) == 2


def test_a_trial_of_another_program_has_no_row_of_times(tmp_path):
    done = Future()
    done.set_result(({"ms_per_step": {"median": 2.0}, "code": "another"}, 1.0))
    trial = plan_sweep(sweep_card(tmp_path, repeats=1), ()).list_trials()[0]
    assert (
        not module._make_finished_trial(trial, done, "this").ok
        and module._make_finished_trial(trial, done, "another").ok
    )


def test_an_error_without_words_is_told_by_its_kind(tmp_path):
    failed = Future()
    failed.set_exception(MemoryError())
    trial = plan_sweep(sweep_card(tmp_path, repeats=1), ()).list_trials()[0]
    assert module._make_finished_trial(trial, failed, "this").error == "MemoryError: it says no more"
