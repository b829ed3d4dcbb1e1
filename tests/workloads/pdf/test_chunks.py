"""More replicas than fit the memory are trained one chunk after the other, to one result."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

import tfperf
from tests.make_pack import make_card
from tests.runcard.cards import ROOT
from tests.runs.conftest import same_bits
from tests.runs.test_resume import interrupted
from tests.train.problems import make_problem
from tests.workloads.memory_process import MIB, measure_card
from tfperf.errors import RunDirectoryError
from tfperf.train.choices import Choices
from tfperf.train.cores import Cores
from tfperf.workloads.options import Options
from tfperf.workloads.pdf import chunks
from tfperf.workloads.pdf.cards import load_card
from tfperf.workloads.pdf.chunks import Footprint, choose_chunk_size, estimate_footprint
from tfperf.workloads.pdf.forms import LAYOUTS, NAMES
from tfperf.workloads.pdf.inputs import read_inputs
from tfperf.workloads.pdf.operators.problem import build_problem
from tfperf.workloads.pdf.sizes import estimate_sizes
from tfperf.workloads.pdf.training import _find_past, train_part
from tfperf.workloads.replica_parts import split

pytestmark = pytest.mark.usefixtures("blank_pictures")

STAGES = [
    "reading data", "building the problem", "building the replicas", "compiling", "training", "evaluating",
    "writing results and report",
]  # fmt: skip
CHUNKED = ["engine.chunk=2", "engine.retire_at=[15, 30]", "train.stopping.patience=4"]
CHUNKED += ["train.optimizer={name: Nadam, learning_rate: 0.05}"]


@pytest.fixture(scope="module")
def without_pages(blank_pictures_of_module):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tfperf.workloads.pdf.report.html.render_html", lambda *_: "")  # seconds each
        yield


@pytest.fixture(scope="module")
def whole(without_pages, tmp_path_factory):
    """A run of five replicas in three chunks."""
    folder = tmp_path_factory.mktemp("chunks")
    return folder, tfperf.fit(make_card(folder, replicas=5, steps=40), folder / "run", overrides=CHUNKED)


def test_chunks_are_the_runs_of_their_replicas(whole, tmp_path):
    folder, result = whole
    assert result.replicas.id.tolist() == [1, 2, 3, 4, 5]
    stacks = result.summary["engine"]["stacks"]
    assert list(stacks) == ["1-1", "2-3", "4-5"] and stacks["2-3"][0] == [0, 2]
    alone = tfperf.fit(folder / "card.yaml", tmp_path / "alone", overrides=[*CHUNKED, "replicas=2-3"])
    np.testing.assert_array_equal(alone.pdf, result.pdf[1:3])
    for name, value in vars(alone.replicas).items():
        np.testing.assert_array_equal(value, np.array(getattr(result.replicas, name))[1:3], err_msg=name)
    for one, other in zip(alone.datasets, result.datasets, strict=True):
        np.testing.assert_array_equal(one.predictions, other.predictions[1:3])
    rows = np.isin(result.history.step, alone.history.step)
    np.testing.assert_array_equal(alone.history.training, result.history.training[rows][:, 1:3])


def stop_in_the_second(card, run, monkeypatch, step, overrides):
    """A run that a signal ends after a step of its second chunk."""

    def second(run_, card_, part, *rest):
        with monkeypatch.context() as patch:
            if part.own.chunk == 1:
                patch.setattr("os.kill", lambda *_: None)
            return train_part(run_, card_, part, *rest)

    with monkeypatch.context() as patch:
        patch.setattr("tfperf.workloads.pdf.training.train_part", second)
        interrupted(card, run, patch, step, overrides)


@pytest.mark.slow
def test_run_stopped_in_the_second_of_three_chunks_resumes_to_the_same_bits(whole, tmp_path, monkeypatch):
    """Whose stacks retire."""
    folder, _ = whole
    card, run = make_card(tmp_path, replicas=5, steps=40), tmp_path / "run"
    stop_in_the_second(card, run, monkeypatch, 15, CHUNKED)
    parts = json.loads((run / "run.json").read_text())["parts"]
    assert [p["done"] for p in parts] == [True, False, False]
    with pytest.raises(RunDirectoryError, match="not finished"):
        tfperf.fit(card, run, overrides=CHUNKED, options=Options(replicas=(8,)))
    result = tfperf.fit(card, run, overrides=CHUNKED, options=Options(resume=True))
    assert result.summary["resumed_from_steps"] == [15]
    same_bits(folder / "run", run)


@pytest.mark.slow
def test_a_chunk_of_another_size_keeps_its_own_stacks(without_pages, tmp_path, monkeypatch):
    """As many as it says that it has, and as it would be resumed with."""
    monkeypatch.setattr(
        "tfperf.workloads.pdf.training.share_cores", lambda total, *rest: Cores(total, {2: 2, 3: 3}[rest[1]])
    )
    card, engine = make_card(tmp_path, replicas=5, steps=20), ["engine.chunk=3", "engine.form=shared"]
    tfperf.fit(card, tmp_path / "run", overrides=engine)
    parts = json.loads((tmp_path / "run" / "run.json").read_text())["parts"]
    assert [len(part["own"]["ids"]) for part in parts] == [2, 3]
    assert [part["choices"]["cpu_stacks"] for part in parts] == [2, 3], "a resumed chunk would go on with others"
    assert parts[0]["choices"]["tried"] == parts[1]["choices"]["tried"], "the rest is measured once"


def test_what_an_earlier_chunk_chose_is_found_without_tensorflow(whole, monkeypatch):
    """Once it is started its threads cannot be set any more."""
    parts = [SimpleNamespace(**part) for part in json.loads((whole[0] / "run" / "run.json").read_text())["parts"]]
    parts[1].choices = {}
    monkeypatch.setattr("tfperf.workloads.pdf.training.list_sibling_chunks", lambda *_: parts)

    def start():
        raise AssertionError("TensorFlow was started")

    monkeypatch.setattr("tensorflow.config.list_logical_devices", start)
    found = _find_past(None, None, parts[1], None, None)  # type: ignore[arg-type]
    assert found == Choices.from_dict(parts[0].choices, NAMES, LAYOUTS)


@pytest.mark.slow
def test_progress_says_which_chunk_and_a_run_stopped_in_the_second_resumes_to_the_same_bits(
    without_pages, tmp_path, capfd, monkeypatch
):
    card, run = make_card(tmp_path, replicas=2, steps=10), tmp_path / "run"
    two = ["engine.chunk=1", "train.steps_per_call=5"]
    tfperf.fit(card, tmp_path / "whole", overrides=two, quiet=False)
    shown = capfd.readouterr().err
    assert "chunk 1 of 2: replicas 1-1" in shown and re.search(r"step \d+/10, chunk 2 of 2, ", shown)
    stages = [re.sub(r"^\d:\d\d:\d\d | \d+ of \d+$", "", line) for line in shown.splitlines() if " step " not in line]
    assert [stage for stage in STAGES if stage in stages] == sorted(STAGES, key=stages.index), "in their order"
    stop_in_the_second(card, run, monkeypatch, 5, two)
    assert [part["done"] for part in json.loads((run / "run.json").read_text())["parts"]] == [True, False]
    with pytest.raises(RunDirectoryError, match="not finished"):
        tfperf.fit(card, run, overrides=two, options=Options(replicas=(8,)))
    result = tfperf.fit(card, run, overrides=two, options=Options(resume=True))
    assert result.summary["resumed_from_steps"] == [5]
    same_bits(tmp_path / "whole", run)


@pytest.mark.slow
def test_extension_is_split_too_and_resumed_by_its_ids(whole):
    folder, _ = whole
    result = tfperf.fit(folder / "card.yaml", folder / "run", overrides=CHUNKED, options=Options(replicas=(11, 12, 13)))
    assert result.replicas.id.tolist() == [1, 2, 3, 4, 5, 11, 12, 13]
    assert list(result.summary["engine"]["stacks"]) == ["11-11", "12-13"]
    again = tfperf.fit(folder / "card.yaml", folder / "run", overrides=CHUNKED, options=Options(resume=True))
    assert again.replicas.id.tolist() == result.replicas.id.tolist()


@pytest.mark.parametrize(("total", "most", "sizes"), [
    (1000, 300, [250] * 4), (5, 2, [1, 2, 2]), (3, 10, [3]), (7, 7, [7]), (8, 7, [4, 4]),
])  # fmt: skip
def test_chunks_are_few_and_even(total, most, sizes):
    pieces = split(total, most)
    assert [s.stop - s.start for s in pieces] == sizes
    assert np.concatenate([np.arange(total)[s] for s in pieces]).tolist() == list(range(total))


def test_as_many_as_fit_the_free_memory(tmp_path, monkeypatch):
    card, problem = make_problem(tmp_path, replicas=1)
    need = estimate_footprint(card, problem)

    def chosen(free):
        monkeypatch.setattr(chunks, "read_available_bytes", lambda: free)
        return choose_chunk_size(card, lambda: problem, 1000)

    assert chosen(need.estimate_peak_bytes(1000, 1000) / chunks.SHARE + 1) == 1000
    budget = need.estimate_peak_bytes(300, 1000)
    found = chosen((budget + 1) / chunks.SHARE)
    assert need.estimate_peak_bytes(found, 1000) <= budget + 1 < need.estimate_peak_bytes(found + 20, 1000)
    assert chosen(1e6) == 1 == estimate_sizes(card).chunks, "even if nothing fits, one replica is tried"
    assert Footprint(10, 2, 1).count_fitting(27, 5) == 5 and Footprint(10, 2, 1).count_fitting(22, 5) == 3


def test_stacks_and_what_is_built_side_by_side_count():
    """By hand: 8 replicas in 4 stacks, of which 2 are busy; one alone is a stack of its own."""
    need = Footprint(100, 10, 1, bytes_per_busy=1000, bytes_per_stack=50, share=lambda replicas: Cores(2, 4))
    assert need.estimate_peak_bytes(8, 20) == 100 + 8 * 10 + 4 * 1000 + 4 * 50 + 20
    assert need.estimate_peak_bytes(1, 1) == 100 + 10 + 1000 + 50 + 1
    assert need.count_fitting(need.estimate_peak_bytes(8, 20), 20) == 8


@pytest.mark.slow
@pytest.mark.parametrize("stacks", [1, 40])
def test_the_estimate_is_what_steps_of_the_shipped_card_need(stacks):
    """RAM that more replicas add; what they add to the whole result lies beside the steps."""
    path = ROOT / "runcards" / "pdf_dis.yaml"
    overrides = [f"engine={{form: shared, xla: false, stacks: {stacks}}}"]
    few, many = (measure_card(path, n, 2048 * MIB, overrides=overrides)["batches"][0]["ram_peak"] for n in (20, 400))
    card = load_card(path, overrides)
    inputs = read_inputs(card)
    problem = build_problem(card, inputs.selection, card.replicas[:1], inputs.t0_pdf, inputs.law)
    need = estimate_footprint(card, problem)
    predicted = need.estimate_peak_bytes(400, 0) - need.estimate_peak_bytes(20, 0)
    assert predicted == pytest.approx(many - few, rel=0.33)
