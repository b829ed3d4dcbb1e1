"""Memory studies over a made-up device whose peaks are known."""

import json
from functools import partial

import pytest
from click.testing import CliRunner

from tests.study.fake_memory import EACH, FIXED, LENGTHS, compute_peak
from tests.study.memory_cards import measure_made_up, run_study
from tfperf.cli import main
from tfperf.errors import CardError, RunDirectoryError, TrainingError
from tfperf.measure.memory_law import fit_law
from tfperf.report.memory import list_lines, make_memory_tables
from tfperf.runcard.memory import MemoryBudget
from tfperf.study import child
from tfperf.study.memory import GIB, find_room, forget_failures, hash_named_files
from tfperf.study.memory_kills import read_kill_count
from tfperf.study.trial_ends import find_end
from tfperf.study.trial_log import TrialLog
from tfperf.workloads.cards import load_checked_card
from tfperf.workloads.registry import WORKLOADS


@pytest.fixture
def study(tmp_path):
    return partial(run_study, tmp_path)


@pytest.fixture
def group(tmp_path, monkeypatch):
    """A made-up control group, in which this program and its trials are."""
    (tmp_path / "group").mkdir()
    (tmp_path / "group" / "memory.events").write_text("oom_kill 2\n")
    own = tmp_path / "proc" / "self"
    own.mkdir(parents=True)
    (own / "cgroup").write_text("0::/\n")
    (own / "mountinfo").write_text(f"31 23 0:28 / {tmp_path / 'group'} rw - cgroup2 cgroup2 rw\n")
    monkeypatch.setattr(child, "read_kill_count", partial(read_kill_count, tmp_path / "proc"))


def count_asked(folder):
    return len((folder / "out" / "trials" / "asked.txt").read_text().splitlines())


@pytest.mark.parametrize("budget", [0.5, 2.0])
def test_the_largest_batch_is_found_and_the_law_is_that_of_the_device(study, tmp_path, budget):
    found = study(budget=budget)["modes"]["train"]
    truth = int((budget * GIB * 0.95 - FIXED) / EACH)
    assert 0.97 * truth <= found["largest"]["batch"] <= truth and found["processes"] <= 12
    assert found["law"]["per_sample"] == pytest.approx(EACH, rel=0.03) and 8 in found["law"]["left_out"]
    assert found["ram"]["law"]["per_sample"] == pytest.approx(1e6, rel=0.01)
    rates = dict(found["fastest"]["rates"])
    assert found["fastest"]["batch"] == max(rates) and rates[max(rates)] > rates[8]
    written = json.loads((tmp_path / "out" / "memory.json").read_text())
    assert written["modes"]["train"]["largest"] == found["largest"]


def test_padded_batches_have_a_law_and_a_largest_batch_for_each_length(study, tmp_path):
    found = study(title="padded", budget=0.5)["modes"]["train"]
    limit = 0.5 * GIB * 0.95
    for part, length in ((found, LENGTHS[-1]), (found["typical"], LENGTHS[-2])):
        assert part["length"] == length and part["processes"] <= 12
        assert (
            compute_peak(part["largest"]["batch"], length)
            <= limit
            < compute_peak(part["largest"]["batch"] / 0.95, length)
        )
    law = found["length_law"]
    assert [law["per_sample"], law["per_place"], law["per_pair"]] == pytest.approx([2e4, 3e3, 50], rel=0.01)
    said = "\n".join(list_lines("train", found))
    assert "train, length 90: largest batch" in said and "train, typical length 40: largest batch" in said
    first, count = json.loads(json.dumps(found)), count_asked(tmp_path)
    assert json.loads(json.dumps(study(title="padded", budget=0.5)["modes"]["train"])) == first
    assert count_asked(tmp_path) == count


def test_a_batch_whose_ram_is_above_its_budget_does_not_fit(study):
    found = study(ram=0.9)["modes"]["train"]
    assert 800e6 + 1e6 * found["largest"]["batch"] <= 0.9 * GIB
    assert any("RAM is above" in end["why"] for end in found["ends"])


def test_what_was_measured_is_not_measured_again(study, tmp_path):
    first = json.loads(json.dumps(study()))
    count = count_asked(tmp_path)
    assert json.loads(json.dumps(study())) == first and count_asked(tmp_path) == count
    with pytest.raises(RunDirectoryError, match="measured with another"):
        study(title="other")


@pytest.mark.parametrize(
    ("title", "kind", "said"),
    [
        ("crash 130", "suspected", "its process was ended by SIGSEGV"),
        ("kill 130", "suspected", "killed by SIGKILL, cause unknown"),
        ("oom 130", "memory", "its process was killed by the system: out of memory"),
        ("hang 130", "suspected", "timeout: not done after 2.5 s"),
        ("memory 130", "memory", "out of memory: its process ended with 1: MemoryError"),
    ],
)
def test_ends_that_a_smaller_batch_does_not_have_are_taken_for_memory(study, group, title, kind, said):
    found = study(title=title, timeout=2.5 if "hang" in title else 60, budget=0.25)["modes"]["train"]
    assert 110 < found["largest"]["batch"] <= 130
    ends = [end for end in found["ends"] if said in end["why"]]
    assert ends and {end["kind"] for end in ends} == {kind}
    assert all(end["batch"] > 130 or end["beyond"] for end in ends), (
        "the batch that failed, not that a process began with"
    )


def test_a_step_that_never_ends_is_named_and_not_waited_for_at_every_batch(study, group, tmp_path):
    with pytest.raises(TrainingError, match=r"train: batch 1 fails: timeout: not done after 1 s; .* does not end"):
        study(title="hang 0", timeout=1)
    assert (tmp_path / "out" / "trials" / "asked.txt").read_text().split() == ["8", "1"]


def test_another_fault_ends_the_study_and_is_named(study):
    with pytest.raises(TrainingError, match=r"batch .* fails: .*ValueError: the model is wrong"):
        study(title="fault 3")


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        ({"exhausted": {"why": "none left"}}, "memory"),
        ({"error": "its process was killed by the system: out of memory"}, "memory"),
        ({"error": "its process was ended by SIGABRT"}, "suspected"),
        ({"error": "its process ended with 1: ValueError: no"}, "fault"),
        ({"error": "its process ended with 1: ValueError: timeout: SIGSEGV"}, "fault"),
        ({"error": "timeout: not done after 5 s"}, "suspected"),
    ],
)
def test_kinds_of_ends(record, kind):
    end = find_end(record)
    assert end is not None and end.kind == kind


def test_a_trial_that_measured_its_batches_has_not_failed():
    assert find_end({"batches": []}) is None


def test_rooms_that_are_not_there_are_refused():
    with pytest.raises(CardError, match=r"memory\.device: got gpu; there is none"):
        find_room(MemoryBudget(device="gpu"))
    with pytest.raises(CardError, match=r"memory\.budget: got 9e\+04 GiB; there are"):
        find_room(MemoryBudget(budget=90_000.0, device="cpu-arena"))
    with pytest.raises(CardError, match=r"memory\.ram: got 9e\+04 GiB; this machine has"):
        find_room(MemoryBudget(budget=0.5, ram=90_000.0, device="cpu-arena"))
    for wanted in (MemoryBudget(budget=1e-9, device="cpu-arena"), MemoryBudget(budget=0.5, margin=0.99)):
        with pytest.raises(CardError, match=r"memory\.budget: got .* must leave at least 0\.0156 GiB"):
            find_room(wanted)


def test_a_card_that_only_a_trial_can_refuse_leaves_nothing(study, tmp_path):
    with pytest.raises(CardError, match="made up"):
        study(title="refuse")
    assert not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("x")
    with pytest.raises(CardError, match="made up"):
        study(title="refuse")
    assert [one.name for one in (tmp_path / "out").iterdir()] == ["mine.txt"]


def test_what_may_go_well_now_is_measured_again(tmp_path):
    log = TrialLog(tmp_path, {})
    log.trials = {
        "train 01: ladder 8": {"batches": []},
        "train 02: verify 9": {"failed": "its process ended with 1: ValueError: no", "timeout": 5},
        "train 03: verify 9": {"failed": "timeout: not done after 5 s", "timeout": 5},
        "train 04: verify 9": {"failed": "out of memory: its process ended with 1: MemoryError", "timeout": 5},
        "train 05: verify 9": {"failed": "its process was ended by SIGSEGV", "timeout": 5},
        "train 06: ladder 1": {"failed": "its process was killed by SIGKILL, cause unknown", "timeout": 5},
    }
    forget_failures(log, 5)
    assert [int(key[6:8]) for key in log.trials] == [1, 3, 4, 5]
    forget_failures(log, 6)
    assert [int(key[6:8]) for key in log.trials] == [1, 4, 5]


def test_a_card_whose_files_are_missing_leaves_nothing(tmp_path):
    (tmp_path / "card.yaml").write_text("replicas: 2\ndata: {pack: x}\ntrain: {steps: 1}\n")
    said = CliRunner().invoke(main, ["memory", str(tmp_path / "card.yaml"), "-o", str(tmp_path / "out")])
    assert said.exit_code == 2 and not (tmp_path / "out").exists()


def test_a_negative_fixed_part_is_told(study):
    found = study()["modes"]["train"]
    law = fit_law([(50, 0.6641e9), (300, 5.7539e9)])
    found["law"] = {**found["law"], "warnings": law.list_warnings()}
    assert any("below zero" in line for line in list_lines("train", found))
    make_memory_tables({"room": {"device": "cpu-arena", "budget": GIB, "margin": 0.05, "ram": None,
                                 "limit": GIB},
                        "modes": {"train": found}})  # fmt: skip


def test_what_was_measured_with_other_data_is_not_taken_up(tmp_path):
    (tmp_path / "pairs.tsv").write_text("source\ttarget\na b\tc d\n")
    (tmp_path / "card.yaml").write_text(
        "workload: translate\ndata: {training: {table: pairs.tsv}}\ntrain: {steps: 100}\n"
    )
    card = load_checked_card(tmp_path / "card.yaml", ())
    before = hash_named_files(card, WORKLOADS.get("translate").kind)
    assert list(before) == ["data.training.0.table"]
    (tmp_path / "pairs.tsv").write_text("source\ttarget\na b\tc e\n")
    assert hash_named_files(card, WORKLOADS.get("translate").kind) != before


def affine(batch):
    return 40e6 + 1.5e6 * batch


def test_a_first_batch_that_alone_fits_is_verified_like_any_other():
    found, asked = measure_made_up(lambda batch: 40e6 + 6e8 * batch)
    assert found["largest"]["batch"] == 1 and sum(key.endswith("verify 1") for key in asked) == 3
    assert found["law"] is None and found["processes"] <= 12


def test_peaks_that_do_not_grow_send_no_trial_far_away():
    for peak in (lambda batch: 90e6 + 8 * batch, lambda batch: 90e6 + 0.01 * batch, lambda _: 90e6):
        found, asked = measure_made_up(peak)
        tried = [int(key.rpartition(" ")[2]) for key in asked]
        ladder = max(point["batch"] for point in found["points"] if point["batch"] < tried[1])
        assert tried[1] <= 16 * ladder and all(b <= 16 * max(tried[1:k]) for k, b in enumerate(tried[2:], 2))
        assert found["processes"] <= 12
    assert found["largest"]["failed_above"] is None and found["law"]["at_largest"]["bytes"] is None
    assert found["law"]["per_sample"] == 0 and any("may fit" in line for line in list_lines("train", found))


def test_batches_up_to_what_the_ram_takes_are_tried_and_what_failed_is_named():
    found, _ = measure_made_up(lambda batch: 40e6 + 1e5 * batch, ram=900_000_000)
    assert 97 <= found["largest"]["batch"] <= 100 and found["ram"]["largest"] in (99, 100)
    assert found["ends"] and all(end["batch"] > 100 for end in found["ends"])
    far, _ = measure_made_up(affine, lambda batch: 8e8 + batch, ram=10**10)
    assert far["ram"]["largest"] is None, "8.7e9 samples are no figure"


def test_a_line_between_two_phases_is_not_taken_for_a_law():
    # the first process had time for four small batches, all of the optimizer's phase
    found, _ = measure_made_up(lambda batch: max(300e6 + 1e4 * batch, affine(batch)), batches=4)
    assert found["law"]["per_sample"] == pytest.approx(1.5e6, rel=0.03) and 8 in found["law"]["left_out"]
    assert found["law"]["at_largest"]["bytes"] == pytest.approx(affine(found["largest"]["batch"]), rel=0.03)


def test_what_was_measured_at_the_largest_batch_is_told_beside_the_law():
    found, _ = measure_made_up(lambda batch: 40e6 + 1e6 * batch + 800 * batch**2)
    said = "\n".join(list_lines("train", found))
    measured = 40e6 + 1e6 * found["largest"]["batch"] + 800 * found["largest"]["batch"] ** 2
    assert found["law"]["at_largest"]["measured"] == int(measured) and "were measured" in said
    assert "is outside of the interval" in said
    assert "outside" not in "\n".join(list_lines("train", measure_made_up(affine)[0]))


def test_a_line_of_the_ram_through_two_points_says_that_it_has_no_interval():
    found, _ = measure_made_up(lambda batch: 40e6 + 6e7 * batch, batches=2)
    found["ram"]["law"]["warnings"] = fit_law([(8, 8e8), (12, 9e8)]).list_warnings()
    assert any("warning: RAM: fitted to two points" in line for line in list_lines("train", found))


def test_the_shorter_of_two_lengths_is_not_called_typical_where_it_is_not():
    def peak(batch, length):
        return 90e6 + batch * (2e4 + 3e3 * length + 50 * length**2)

    found, asked = measure_made_up(peak, lengths=(20, 90, 90))
    assert found["length"] == 90 and found["typical"] is None and found["length_law"]["lengths"] == (20, 90)
    assert any("two lengths do not tell" in line for line in list_lines("train", found))
    assert not any("length 20" in key and "verify" in key for key in asked)
    assert measure_made_up(peak, lengths=(20, 20, 90))[0]["typical"]["length"] == 20
    three = measure_made_up(peak, lengths=(20, 40, 90))[0]
    assert three["typical"]["length"] == 40 and three["length_law"]["per_pair"] == pytest.approx(50, rel=0.01)
    assert not any("two lengths" in line for line in list_lines("train", three))
