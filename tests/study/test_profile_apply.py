"""A finding's change tried beside the card as it is: what wins is written, all else is told."""

import json
import os
import signal
import sys
from threading import Timer

import pytest
import yaml
from click.testing import CliRunner

from tests.trace.profiles import us, write
from tfperf.cli import main
from tfperf.errors import CardError, Interrupted, TrainingError
from tfperf.runcard.dump import to_tree
from tfperf.runcard.profile import Profile
from tfperf.study.profile_apply import ChangeSearch, apply_findings
from tfperf.trace.notes import FILE
from tfperf.workloads.cards import load_card

CALLS = {"rule": "calls", "what": "each call takes 0.8 ms", "ms": 0.8, "gain_ms": 0.75}
SHORT = {"rule": "short_operations", "what": "between short operations", "ms": 0.3, "gain_ms": 0.3}
INPUT = {"rule": "input", "what": "steps wait for input", "ms": 0.5, "gain_ms": 0.5}
VALIDATION = {"rule": "validation", "what": "validation", "ms": 0.5, "gain_ms": 0.5}
WINDOW = Profile(steps=10, skip=0)
CARD = {
    "workload": "keras", "model": {"build": "tfperf.zoo.tabular:build_model"},
    "data": {"build": "tfperf.zoo.tabular:load_samples"}, "train": {"epochs": 2, "steps_per_call": 1},
    "engine": {"xla": False},
}  # fmt: skip


@pytest.fixture
def card_file(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(CARD))
    return path


class MadeUpTrials:
    """Stands for trials: ms a step of a card's tree, which vary by 1 % from turn to turn alike for all."""

    def __init__(self, compute_ms, epoch=1000, faults=()):
        self.compute_ms, self.epoch, self.faults, self.asked = compute_ms, epoch, dict(faults), []

    def measure(self, tree):
        calls, xla = tree["train"]["steps_per_call"], tree["engine"]["xla"]
        self.asked.append((calls, xla))
        if calls in self.faults:
            return self.faults[calls]
        ms = self.compute_ms(calls, xla, len(self.asked)) * (1 + 0.01 * ((len(self.asked) - 1) // 2 % 2))
        steps = {"steps_per_call": min(calls, self.epoch), "samples": 1, "samples_ms": [ms], "left_out": 0}
        return steps | {"ms_per_step": {"median": ms}}


def search(card_file, trials, *findings, repeat=4, program="card"):
    found = ChangeSearch(load_card(card_file), trials.measure, repeat, lambda *_: None)
    return found.run({"program": program, "findings": list(findings)})


def test_what_wins_beyond_chance_is_kept_with_both_figures_and_the_gain_that_was_predicted(card_file):
    trials = MadeUpTrials(lambda calls, xla, number: 0.2 + 0.8 / calls)
    applied = search(card_file, trials, CALLS, SHORT)
    (one,) = applied["tried"]
    assert applied["kept"] == one and one["outcome"] == "kept" and not applied["left"]
    assert (one["key"], one["before"], one["after"], len(one["turns_ms"])) == ("train.steps_per_call", 1, 16, 4)
    assert one["before_ms"] == pytest.approx(1.005) and one["after_ms"] == pytest.approx(0.25 * 1.005)
    assert one["predicted_ms"] == pytest.approx(0.75) and one["chance_ms"] < 0.02
    assert trials.asked == [(1, False), (16, False)] * 4  # in turn


@pytest.mark.parametrize(
    "factor, outcome", [(1.2, "slower"), (0.995, "small"), (1.0, "same")]
)  # fmt: skip
def test_what_does_not_win_is_not_kept_and_the_next_finding_is_tried(card_file, factor, outcome):
    trials = MadeUpTrials(lambda calls, xla, number: factor if calls > 1 else 0.5 if xla else 1.0)
    applied = search(card_file, trials, CALLS, SHORT)
    first, second = applied["tried"]
    assert first["outcome"] == outcome and first["before_ms"] == pytest.approx(1.005)
    assert second["outcome"] == "kept" and second["key"] == "engine.xla" and second["after"] is True


def test_a_gain_within_chance_is_none(card_file):
    """On average the change takes a tenth less, but as much more in some turns."""
    sides = iter([1.0, 0.7, 1.0, 1.1, 1.0, 0.7, 1.0, 1.1])
    trials = MadeUpTrials(lambda calls, xla, number: next(sides))
    (one,) = search(card_file, trials, CALLS)["tried"]
    assert one["outcome"] == "same" and one["chance_ms"] > one["before_ms"] - one["after_ms"] > 0


def test_a_machine_that_is_slow_for_some_turns_hides_no_gain(card_file):
    """Their differences scatter by more than they are, their ratios do not."""
    slow = [1, 1, 9, 9.2, 1, 1.05, 3, 2.9]
    trials = MadeUpTrials(lambda calls, xla, number: slow[number - 1] * (0.5 if calls > 1 else 1.0))
    (one,) = search(card_file, trials, CALLS)["tried"]
    assert one["outcome"] == "kept" and one["before_ms"] == pytest.approx(2, abs=0.1)
    assert one["after_ms"] == pytest.approx(one["before_ms"] / 2, rel=0.05)


def test_calls_are_told_as_long_as_they_were(card_file):
    trials = MadeUpTrials(lambda calls, xla, number: 0.2 + 0.8 / calls, epoch=12)
    (one,) = search(card_file, trials, CALLS)["tried"]
    assert one["after"] == 12 and one["predicted_ms"] == pytest.approx(0.8 * 11 / 12)
    assert trials.asked[1] == (16, False) and trials.asked[3] == (12, False)


def test_calls_that_are_shorter_than_the_cards_are_no_longer_ones(card_file):
    """Trials cut calls to a time, which falls out a little longer now and then."""
    cut = iter([480, 510, 480, 510, 480])
    tree = yaml.safe_load(card_file.read_text())
    card_file.write_text(yaml.safe_dump(tree | {"train": {"epochs": 2, "steps_per_call": 1000}}))

    def measure(tree):
        return {
            "steps_per_call": next(cut),
            "samples": 1,
            "samples_ms": [1.0],
            "left_out": 0,
            "ms_per_step": {"median": 1.0},
        }

    found = ChangeSearch(load_card(card_file), measure, 4, lambda *_: None).run(
        {"program": "card", "findings": [CALLS]}
    )
    assert {one["outcome"] for one in found["tried"]} == {"refused"} and found["kept"] is None


def test_sides_that_take_other_batches_prove_nothing(card_file):
    trials = MadeUpTrials(lambda calls, xla, number: 1 / calls)
    card, batches = load_card(card_file), iter([{"batches": 20}, {"batches": 160}] * 4)
    search = ChangeSearch(card, lambda tree: trials.measure(tree) | {"work": next(batches)}, 4, lambda *_: None)
    found = search.run({"program": "card", "findings": [CALLS]})
    assert "other batches" in found["tried"][0]["why"] and found["kept"] is None


def test_calls_that_are_no_longer_after_all_are_not_measured_on(card_file):
    trials = MadeUpTrials(lambda calls, xla, number: 1.0, epoch=1)
    applied = search(card_file, trials, CALLS)
    assert applied["kept"] is None and all("1 steps all the same" in one["why"] for one in applied["tried"])
    assert len(trials.asked) == 4


def test_of_a_refused_value_a_smaller_one_is_tried_and_then_the_next_finding(card_file):
    refused, failed = {"refused": ["the training has 60 steps"]}, {"error": "its process was killed"}
    one_fault = MadeUpTrials(lambda calls, xla, number: 1 / calls, faults={16: refused})
    applied = search(card_file, one_fault, CALLS)
    assert [(one["after"], one["outcome"]) for one in applied["tried"]] == [(16, "refused"), (4, "kept")]
    assert applied["tried"][0]["why"] == "the training has 60 steps" and applied["tried"][0]["before_ms"] is None
    both = MadeUpTrials(lambda calls, xla, number: 0.5 if xla else 1.0, faults={16: refused, 4: failed})
    applied = search(card_file, both, CALLS, SHORT)
    assert [one["outcome"] for one in applied["tried"]] == ["refused", "refused", "kept"]


def test_what_the_card_cannot_say_is_not_measured(tmp_path):
    """Compiled by XLA a translator's own recurrent operation is none."""
    path = tmp_path / "translate.yaml"
    sides = {"source": str(path), "target": str(path)}
    card = {"workload": "translate", "data": {"training": sides}, "train": {"steps": 100}, "engine": {"lstm": "block"}}
    path.write_text(yaml.safe_dump(card))
    trials = MadeUpTrials(lambda *_: 1.0)
    found = ChangeSearch(load_card(path), trials.measure, 2, lambda *_: None)
    (one,) = found.run({"program": "card", "findings": [SHORT]})["tried"]
    assert one["outcome"] == "refused" and "auto or plain with engine.xla" in one["why"]
    assert not trials.asked


@pytest.mark.parametrize("fault, error", [({"refused": ["no data"]}, CardError), ({"error": "died"}, TrainingError)])
def test_a_card_that_cannot_be_measured_as_it_is_ends_it(card_file, fault, error):
    with pytest.raises(error, match=r"no data|died"):
        search(card_file, MadeUpTrials(lambda *_: 1.0, faults={1: fault}), CALLS)


def test_findings_that_no_key_changes_are_left_with_the_reason(card_file):
    trials = MadeUpTrials(lambda *_: 1.0)
    applied = search(card_file, trials, VALIDATION, INPUT)
    assert applied["kept"] is None and not applied["tried"] and not trials.asked
    assert [one["rule"] for one in applied["left"]] == ["validation", "input"]
    assert "no key of the card" in applied["left"][0]["why"] and "tfperf input" in applied["left"][1]["why"]
    card_file.write_text(yaml.safe_dump(CARD | {"engine": {}, "train": {"epochs": 2}}))
    applied = search(card_file, trials, CALLS, SHORT)
    assert all("is auto" in one["why"] for one in applied["left"]) and not trials.asked


def test_a_key_is_tried_once_for_two_findings(card_file):
    trials = MadeUpTrials(lambda *_: 1.0)
    applied = search(card_file, trials, CALLS, VALIDATION, program="engine")
    assert len(applied["tried"]) == 1 and "tried already" in applied["left"][0]["why"]


ANSWER = """
import json, sys
asked = json.loads(sys.stdin.readline())
calls = asked["card"]["train"]["steps_per_call"]
ms = 1 / calls
print(json.dumps({"steps_per_call": calls, "ms_per_step": {"median": ms}}))
"""
REPORT = {"program": "card", "findings": [CALLS], "period_ms": 1.0}


def apply(card_file, folder, source):
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-c", source]
    return apply_findings(load_card(card_file), WINDOW, REPORT, folder, 2, lambda *_: None, command)


def test_the_card_is_written_beside_the_report_and_the_given_one_stays(card_file, tmp_path):
    before = card_file.read_bytes()
    applied = apply(card_file, tmp_path / "out", ANSWER)
    assert applied["card"] == "small_faster.yaml" and card_file.read_bytes() == before
    written = tmp_path / "out" / "small_faster.yaml"
    card, now = to_tree(load_card(card_file)), to_tree(load_card(written))
    assert now["train"].pop("steps_per_call") == 16 and card["train"].pop("steps_per_call") == 1 and now == card
    assert "train.steps_per_call: 16, was 1" in written.read_text().splitlines()[1]
    # where the next one finds nothing, none is left of this one
    assert apply(card_file, tmp_path / "out", ANSWER.replace("1 / calls", "1.0"))["card"] is None
    assert not written.exists()


def test_a_signal_ends_it_and_no_card_is_written(card_file, tmp_path):
    timer = Timer(0.5, os.kill, [os.getpid(), signal.SIGTERM])
    timer.start()
    with pytest.raises(Interrupted, match="no card was written") as stop:
        apply(card_file, tmp_path / "out", "import time; time.sleep(60)")
    timer.join()
    assert stop.value.exit_code == 128 + signal.SIGTERM and list((tmp_path / "out").iterdir()) == []


def plant_profile(folder):
    """Four calls of a step, each of which takes long to be started."""
    python = [("train", 100 * i, 100, {"step_num": 0}) for i in range(4)]
    main_thread = [("dense/MatMul:MatMul", 100 * i + 10, 60) for i in range(4)]
    session = folder / "plugins" / "profile" / "one"
    session.mkdir(parents=True)
    write(session / "vm.xplane.pb", {"/host:CPU": {"p": us(*python), "m": us(*main_thread)}})
    (session / FILE).write_text(json.dumps({"own": True, "optimizers": [], "program": "card"}))


@pytest.mark.parametrize("gain, words", [(True, "wins beyond chance: kept"), (False, "no card is written")])
def test_the_verb_tells_it_in_the_terminal_the_record_and_the_page(card_file, tmp_path, monkeypatch, gain, words):
    out = tmp_path / "out"
    trials = MadeUpTrials(lambda calls, xla, number: 1 / calls if gain else 1.0)
    monkeypatch.setattr("tfperf.study.profile.record_profiles", lambda *_: plant_profile(out))
    monkeypatch.setattr("tfperf.study.profile_apply.run_subprocess", lambda _, asked, __: trials.measure(asked["card"]))
    result = CliRunner().invoke(main, ["profile", str(card_file), "-o", str(out), "--apply", "--repeat", "2"])
    assert result.exit_code == 0 and words in result.output.replace("\n", " ")
    applied = json.loads((out / "report.json").read_text())["applied"]
    assert applied["tried"][0]["predicted_ms"] == pytest.approx(0.04 * 15 / 16)
    assert (out / "small_faster.yaml").exists() == gain == (applied["card"] is not None)
    assert words in (out / "report.html").read_text()


@pytest.mark.parametrize(
    "options, words",
    [
        (["--against", "other.yaml"], "--apply: excludes --against"), (["--naive"], "--apply: excludes --naive"),
        (["--repeat", "1"], "--repeat 1; must be 2 at least"), (None, "must be a card"),
    ],
)  # fmt: skip
def test_what_cannot_be_applied_is_refused_before_anything_is_recorded(card_file, options, words):
    path = card_file.parent if options is None else card_file
    result = CliRunner().invoke(main, ["profile", str(path), "--apply", *(options or ())])
    assert result.exit_code == 2 and words in " ".join(result.output.split())
    assert list(card_file.parent.iterdir()) == [card_file]


def test_steps_of_a_window_are_no_part_of_the_card_that_is_written(card_file, tmp_path, monkeypatch):
    out, trials = tmp_path / "out", MadeUpTrials(lambda calls, xla, number: 1 / calls)
    monkeypatch.setattr("tfperf.study.profile.record_profiles", lambda *_: plant_profile(out))
    monkeypatch.setattr("tfperf.study.profile_apply.run_subprocess", lambda _, asked, __: trials.measure(asked["card"]))
    command = ["profile", str(card_file), "-o", str(out), "--apply", "--repeat", "2", "--steps", "30"]
    assert CliRunner().invoke(main, command).exit_code == 0
    assert load_card(out / "small_faster.yaml").profile is None


@pytest.mark.slow
def test_longer_calls_of_a_small_model_win_indeed(card_file, tmp_path):
    out = tmp_path / "out"
    result = CliRunner().invoke(main, ["profile", str(card_file), "-o", str(out), "--apply"])
    assert result.exit_code == 0, result.output
    first = json.loads((out / "report.json").read_text())["applied"]["tried"][0]
    assert first["key"] == "train.steps_per_call" and first["outcome"] == "kept"
    assert to_tree(load_card(out / "small_faster.yaml"))["train"]["steps_per_call"] == first["after"] > 1
