"""The study around the trials, with made-up trials."""

import json
from dataclasses import replace

import pytest

from tests.study.fakes import NAMES, Trials, make_auto_card, run
from tfperf.errors import CardError, RunDirectoryError, StorageError
from tfperf.study import trial_log
from tfperf.study.trial_log import FILE


def stored(folder):
    return json.loads((folder / FILE).read_text())


def test_all_forms_are_measured_once_with_the_decided_choices(tmp_path):
    trials = Trials()
    report, _ = run(make_auto_card(tmp_path), tmp_path / "out", trials)
    keys = [Trials.key(r) for r in trials.requests if not r.decide]
    assert len(keys) == len(set(keys)) == 16 and sum(r.decide for r in trials.requests) == 1
    engine = [r for r in trials.requests if not r.naive and not r.decide]
    assert {r.card["engine"]["xla"] for r in engine} == {True, False}  # no `auto` is left
    assert {r.card["train"]["steps_per_call"] for r in engine} == {1, 50}
    assert [r.seconds for r in trials.requests if Trials.key(r) == "naive"] == [None]  # a reference only
    assert report["agree"] and (tmp_path / "out" / "ablation.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "out" / "environment.json").read_text())["versions"]["tfperf"]


def test_speed_ups_are_ratios_of_medians(tmp_path):
    report, _ = run(make_auto_card(tmp_path), tmp_path / "out", Trials())
    rows = {e["name"]: e for e in report["series"]}
    assert list(rows) == ["naive", "stacked", *NAMES]
    assert rows["naive"]["speedup"] is None and rows["stacked"]["speedup"] == 60 / 30
    assert rows["tolerance"]["speedup"] == 5 / 1 and rows["tolerance"]["speedup_cumulative"] == 60
    assert rows["products"]["slowdown_without"] == 1.5 and rows["stacked"]["slowdown_without"] is None
    assert stored(tmp_path / "out")["series"] == report["series"]


def test_an_interrupted_study_keeps_what_it_has_and_goes_on(tmp_path):
    card, first, second = make_auto_card(tmp_path), Trials(stop_after=5), Trials()
    with pytest.raises(KeyboardInterrupt):
        run(card, tmp_path / "out", first)
    half = stored(tmp_path / "out")
    assert len(half["trials"]) == 4 and half["choices"] and not half["agree"]
    report, shown = run(card, tmp_path / "out", second)
    asked = [Trials.key(r) for r in (*first.requests, *second.requests) if not r.decide]
    assert len(asked) == len(set(asked)) == 16 and not any(r.decide for r in second.requests)
    assert report["agree"] and shown[-1][:2] == (16, 16)
    third = Trials()
    run(card, tmp_path / "out", third)
    assert not third.requests


def test_the_file_is_whole_whenever_a_trial_ends(tmp_path, monkeypatch):
    def full_disk(path, content):
        raise StorageError("full")

    card = make_auto_card(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run(card, tmp_path / "out", Trials(stop_after=3))
    before = stored(tmp_path / "out")
    monkeypatch.setattr(trial_log, "write", full_disk)
    with pytest.raises(StorageError):
        run(card, tmp_path / "out", Trials())
    assert stored(tmp_path / "out") == before


@pytest.mark.parametrize("spoilt", ["full", "without products", "without quadrature"])
def test_losses_that_differ_are_told(tmp_path, spoilt):
    report, _ = run(make_auto_card(tmp_path), tmp_path / "out", Trials(spoilt=[spoilt]))
    assert not report["agree"]


def test_only_reduced_forms_are_given_the_tolerance(tmp_path):
    run(make_auto_card(tmp_path), tmp_path / "out", Trials())
    rows = {e["name"]: e for e in stored(tmp_path / "out")["series"]}
    allowed = {name: entry["agreement"]["allowed"] for name, entry in rows.items()}
    assert allowed == dict.fromkeys(["naive", "stacked", *NAMES], 1e-5) | {"tolerance": 1e-3}
    without = {name: rows[name]["without"]["agreement"]["allowed"] for name in NAMES}
    assert without == dict.fromkeys(NAMES, 1e-3) | {"form": 1e-5, "tolerance": 1e-5}


def test_what_the_chosen_form_makes_pointless_is_left_out(tmp_path):
    def shared(request, signals):
        record = Trials()(request, signals)
        return {"choices": record["choices"] | {"engine.form": "shared"}} if request.decide else record

    report, _ = run(make_auto_card(tmp_path), tmp_path / "out", shared)
    assert [e["name"] for e in report["series"]] == ["naive", "stacked", *NAMES[:5]]
    assert "engine.form" in report["left_out"]["form"] and "engine.form" in report["left_out"]["tolerance"]


def test_a_form_that_fails_is_not_measured_and_tried_again(tmp_path):
    card = make_auto_card(tmp_path)
    report, shown = run(card, tmp_path / "out", Trials(broken=["without tolerance"]))
    rows = {e["name"]: e for e in report["series"]}
    assert rows["form"]["ms_per_step"] is None and rows["tolerance"]["speedup"] is None
    assert rows["tolerance"]["speedup_cumulative"] == 60 and not report["agree"]
    assert any("could not be measured: its process ended" in words for _, _, words in shown)
    again = Trials()
    report, _ = run(card, tmp_path / "out", again)
    assert [Trials.key(r) for r in again.requests] == ["without tolerance"] and report["agree"]


def test_another_card_pack_or_version_is_refused(tmp_path, monkeypatch):
    run(make_auto_card(tmp_path), tmp_path / "out", Trials())
    with pytest.raises(RunDirectoryError, match="another card; choose another folder"):
        run(make_auto_card(tmp_path, steps=61), tmp_path / "out", Trials())
    monkeypatch.setattr(trial_log, "list_versions", lambda: {"tfperf": "9"})
    with pytest.raises(RunDirectoryError, match="another versions"):
        run(make_auto_card(tmp_path), tmp_path / "out", Trials())


def test_a_moved_card_is_the_same_card(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    run(make_auto_card(tmp_path / "a"), tmp_path / "out", Trials())
    (tmp_path / "b" / "pack.h5").write_bytes((tmp_path / "a" / "pack.h5").read_bytes())
    again = Trials()
    run(make_auto_card(tmp_path / "b"), tmp_path / "out", again)
    assert not again.requests
    assert str(tmp_path) not in (tmp_path / "out" / FILE).read_text()


@pytest.mark.parametrize("text", ["{", "[]", '{"identity": {}}'])
def test_a_damaged_file_is_refused(tmp_path, text):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / FILE).write_text(text)
    with pytest.raises(RunDirectoryError, match="damaged"):
        run(make_auto_card(tmp_path), tmp_path / "out", Trials())


def test_a_run_is_not_written_over_and_a_fit_for_t0_is_refused(tmp_path):
    card = make_auto_card(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    with pytest.raises(RunDirectoryError, match="holds a run"):
        run(card, tmp_path / "run", Trials())
    with pytest.raises(CardError, match=r"data\.t0: got 'fit'"):
        run(replace(card, data=replace(card.data, t0="fit")), tmp_path / "out", Trials())
