"""`tfperf memory --static`: what is refused, and that a whole estimate comes from a process of its own."""

import pytest
from click.testing import CliRunner

from tfperf.cli import main
from tfperf.errors import CardError
from tfperf.runcard.dump import to_json_tree
from tfperf.study.static_estimate import estimate_request
from tfperf.study.static_memory import find_holders
from tfperf.study.trial_log import TrialLog, make_card_identity
from tfperf.workloads.cards import load_checked_card
from tfperf.workloads.keras.workload import KerasWorkload
from tfperf.workloads.workload import Workload

NET = """import keras
import numpy as np


def build():
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(4096, "relu"), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model


def load():
    return np.ones((32, 64), "float32"), np.ones((32, 1), "float32")
"""


@pytest.fixture
def path(tmp_path):
    (tmp_path / "tfperf_made_up_static.py").write_text(NET)
    (tmp_path / "card.yaml").write_text(
        "workload: keras\nmodel: {build: 'tfperf_made_up_static.py:build'}\n"
        "data: {build: 'tfperf_made_up_static.py:load'}\ntrain: {epochs: 1}\n"
    )
    return tmp_path / "card.yaml"


def test_a_study_that_runs_steps_needs_a_folder(path):
    result = CliRunner().invoke(main, ["memory", str(path)])
    assert result.exit_code == 2 and "--output" in result.output


def test_a_workload_whose_step_nothing_traces_is_refused(path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")  # as the estimate sets it
    monkeypatch.setattr(KerasWorkload, "build_step_tracer", Workload.build_step_tracer)
    request = {"card": to_json_tree(load_checked_card(path, ())), "mode": "train"}
    with pytest.raises(CardError, match="no step that is traced alone"):
        estimate_request(request)


@pytest.mark.slow
def test_the_largest_batch_for_a_machine_that_is_not_there(path):
    result = CliRunner().invoke(main, ["memory", str(path), "--static", "--budget", "80GiB"])
    assert result.exit_code == 0, result.output
    assert "no step was run" in result.output and "mixed_bfloat16" in result.output
    (line,) = [line for line in result.output.splitlines() if "the largest within" in line]
    batch = int(line.partition("batch ")[2].partition(",")[0])
    # a sample's hidden layer and what its gradient takes: between two and five of them
    assert 80 * 2**30 * 0.95 / (5 * 4 * 4096) < batch < 80 * 2**30 * 0.95 / (2 * 4 * 4096)


@pytest.mark.slow
def test_who_holds_it_is_asked_once_and_a_failure_is_a_finding(path, tmp_path):
    card = load_checked_card(path, ())
    log = TrialLog(tmp_path, make_card_identity(card, {}), "memory.json")
    log.load()
    first = find_holders(card, "train", 256, log, lambda: False, 300)
    assert first["layers"] and find_holders(card, "train", 256, log, lambda: False, 0.01) is first
    assert "timeout" in find_holders(card, "train", 512, log, lambda: False, 0.01)["reason"]
