"""The memory of replicas that are trained together, against bytes that are counted by hand; what is refused."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from tests.make_pack import make_card
from tests.runcard.cards import ROOT
from tests.train.problems import make_problem
from tests.workloads.memory_process import MIB, PAIR, measure_card
from tfperf.cli import main
from tfperf.train.loop import Loop
from tfperf.workloads.pdf.chunks import count_parameters
from tfperf.workloads.pdf.memory import ReplicaMemoryTrial
from tfperf.workloads.pdf.operators.loss_constants import truncate_whitening
from tfperf.workloads.pdf.workload import WORKLOAD

WIDE = ["model={layers: [64, 64, 8]}", "train.optimizer={name: Adam}"]


def count_kept_bytes(card, problem):
    """Of each replica between steps: float32 but for the mask."""
    weights = 3 + 2  # the stack's, those in one row, the best ones; Adam's two slots
    inverses = 2 * sum(b.u.shape[1] ** 2 for b in truncate_whitening(problem, np.float32).blocks)  # of both halves
    return 4 * (weights * count_parameters(card) + inverses) + (4 + 1) * len(problem.central)  # data and mask


@pytest.mark.slow
def test_what_each_replica_adds_is_counted_by_hand(tmp_path):
    card, problem = make_problem(tmp_path, WIDE)
    record = measure_card(tmp_path / "card.yaml", 64, share=PAIR, overrides=WIDE)
    stages, each = record["stages"], count_kept_bytes(card, problem)
    assert [one["batch"] for one in record["batches"]] == [64, 96]
    kept = [stages[f"step 2, batch {replicas}"]["device"] for replicas in (64, 96)]
    assert (kept[1] - kept[0]) / 32 == pytest.approx(each, rel=0.1), "the 64 are freed before the 96 are made"
    weights = 4 * count_parameters(card)
    slots = stages["optimizer's slots made"]["device"] - stages["model built"]["device"]
    # in one row, and Adam's two slots, of one replica; its best weights are the row until they change; 256 bytes each
    assert 3 * weights < slots < 3 * weights + 30 * 256
    first, last = record["batches"]
    assert (last["least"] - first["least"]) / 32 > each, "gradients and activations are beside"


def test_steps_are_those_of_the_card_and_no_replica_stops(tmp_path):
    stopping = ["train={steps: 20, stopping: {patience: 1}, optimizer: {name: Adam, learning_rate: 0.5}}"]
    engine = ["engine={form: folded, xla: false}", "positivity.threshold=1e6"]
    card, _ = make_problem(tmp_path, [*stopping, *engine])
    trial = ReplicaMemoryTrial(card)
    trial.read_data()
    trial.set_batch(5)
    ensemble = trial._ensemble
    assert ensemble is not None and ensemble.form.name == "folded" and ensemble.replicas == 5
    trial.take_steps(10)
    trial.take_steps(13)
    trial.validate()
    assert ensemble.step == 23 and ensemble.count_running() == 5, "more than the card has"
    assert {xla for loop in ensemble.build_loops() for name, xla in loop._compiled if name == "steps"} == {False}


def test_what_is_left_open_is_what_a_fit_begins_with_and_is_told(tmp_path, monkeypatch):
    card, _ = make_problem(tmp_path, ["engine={form: auto, xla: auto}"])
    trial = ReplicaMemoryTrial(card)
    trial.read_data()
    monkeypatch.setattr(Loop, "__init__", lambda *_: pytest.fail("a loop was made for the model"))
    trial.build_model()
    assert trial._stack is not None and trial._stack.replica_losses.loss_constants.folded is None
    first, second = WORKLOAD.describe_memory(card)
    assert "engine.form: shared, engine.products: grouped, engine.xla: false" in first
    assert "engine.stacks: 1" in second and trial._cores.stacks == 1
    fixed, _ = make_problem(tmp_path, ["engine={form: folded, xla: true, products: joined, stacks: 3}"])
    assert not WORKLOAD.describe_memory(fixed) and ReplicaMemoryTrial(fixed)._cores.stacks == 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--mode", "predict"], "--mode: got predict"),
        (["--set", "data.t0=fit"], "data.t0: got 'fit'"),
        (["--set", "engine.threads=measure"], "engine.threads: got 'measure'"),
        (["--set", "engine.devices=2"], "engine.devices: got 2; memory is measured on one device; allowed: 1"),
    ],
)  # fmt: skip
def test_what_cannot_be_measured_is_refused_before_anything_is_written(tmp_path, options, said):
    card = make_card(tmp_path)
    result = CliRunner().invoke(main, ["memory", str(card), "-o", str(tmp_path / "out"), *options])
    assert result.exit_code == 2 and said in result.output and not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_largest_number_of_replicas_of_the_shipped_card(tmp_path):
    card = ROOT / "runcards" / "pdf_dis.yaml"
    given = ["--budget", "0.4", "--set", "memory.device=cpu-arena"]  # a budget of 1 takes 5 GB of RAM
    result = CliRunner().invoke(main, ["memory", str(card), "-o", str(tmp_path / "out"), "-q", *given])
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "out" / "memory.json").read_text())["modes"]["train"]
    most = found["largest"]["batch"]
    assert found["largest"]["passes"] == 3 and f"largest: {most} replicas, passed in 3" in result.output
    (point,) = measure_card(card, 3 * most // 4, limit=409 * MIB)["batches"]
    law = found["law"]
    assert law["fixed"] + law["per_sample"] * point["batch"] == pytest.approx(point["least"], rel=0.05)
