"""Static estimates of replicas: of any number from two small stacks, against the stack itself and measured peaks."""

import pytest
from click.testing import CliRunner

from tests.runcard.cards import ROOT
from tests.train.problems import make_problem
from tests.workloads.memory_process import measure_card
from tfperf.cli import main
from tfperf.errors import CardError
from tfperf.study.static_memory import estimate_card
from tfperf.workloads.cards import load_checked_card
from tfperf.workloads.pdf.workload import WORKLOAD

CARD, MANY = ROOT / "runcards" / "pdf_dis.yaml", 160
PLAIN = ["train.optimizer={name: Adam}", "engine={xla: false}"]


@pytest.mark.slow
def test_a_number_that_was_not_traced_needs_what_its_own_step_tells(tmp_path):
    card, _ = make_problem(tmp_path, PLAIN)
    tracer = WORKLOAD.build_step_tracer(card, "train")
    assert not tracer.list_variants()
    scaled, direct = tracer.trace_step(MANY).estimate(), tracer._trace(MANY).estimate()
    assert scaled.reason == direct.reason == ""
    assert scaled.peak is not None and direct.peak is not None and direct.fixed is not None
    assert scaled.peak == pytest.approx(direct.peak, rel=0.01) and scaled.fixed == pytest.approx(direct.fixed, rel=0.01)
    assert scaled.kind == "replicas" and any(one.kind == "slot" for one in scaled.buffers)
    data = [one for one in scaled.buffers if one.kind == "given" and one.shape[:1] == (MANY,)]
    assert data, "each replica has data of its own"
    much = tracer.trace_step(1000 * MANY).estimate()
    assert much.peak is not None and 900 < much.peak / scaled.peak < 1100, "of a machine that is not here"


def test_several_stacks_and_predictions_are_refused(tmp_path):
    card, _ = make_problem(tmp_path, ["engine={stacks: 2}"])
    with pytest.raises(CardError, match=r"engine.stacks: got 2"):
        WORKLOAD.build_step_tracer(card, "train").trace_step(8)
    with pytest.raises(CardError, match="--mode: got predict"):
        WORKLOAD.build_step_tracer(card, "predict")


@pytest.mark.slow
def test_the_estimate_of_a_hundred_replicas_is_near_the_measured_peak():
    record = estimate_card(load_checked_card(CARD, ()), "train", [100, 400], savings=False)
    assert record is not None and record["kind"] == "replicas"
    for point in record["points"]:
        (measured,) = measure_card(CARD, point["batch"])["batches"]
        assert point["peak"] == pytest.approx(measured["least"], rel=0.10)


@pytest.mark.slow
def test_what_xla_tells_is_near_the_measured_peak():
    compiled = ["engine.xla=true"]
    record = estimate_card(load_checked_card(CARD, compiled), "train", [100], savings=False)
    (measured,) = measure_card(CARD, 100, overrides=compiled)["batches"]
    assert record is not None and record["compiled"]
    assert record["points"][0]["peak"] == pytest.approx(measured["least"], rel=0.10)


@pytest.mark.slow
def test_the_largest_number_for_a_machine_that_is_not_there():
    result = CliRunner().invoke(main, ["memory", str(CARD), "--static", "--budget", "80GiB"])
    assert result.exit_code == 0, result.output
    (line,) = [line for line in result.output.splitlines() if "the largest within" in line]
    assert int(line.partition("GB: ")[2].partition(" replicas")[0]) > 100_000 and "each replica adds" in result.output
