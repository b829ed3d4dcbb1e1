"""Static estimates of a translator against bytes that are counted by hand, and against measured peaks."""

import pytest

from tests.runcard.cards import ROOT
from tests.workloads.memory_process import measure_card
from tests.workloads.translate.translations import make_card
from tfperf.errors import CardError
from tfperf.study.static_memory import estimate_card
from tfperf.workloads.cards import load_checked_card
from tfperf.workloads.step_tracer import SHORTER
from tfperf.workloads.translate.card import TranslationCard
from tfperf.workloads.translate.cards import load_card
from tfperf.workloads.translate.workload import WORKLOAD

CARD, PAIRS, ROWS = ROOT / "runcards" / "translate.yaml", 20_000, 320


@pytest.fixture
def card(tmp_path):
    return load_card(make_card(tmp_path))


def test_the_logits_are_most_of_a_step_and_shorter_batches_have_fewer(card):
    tracer = WORKLOAD.build_step_tracer(card, "train")
    (name,) = tracer.list_variants()
    _, typical, longest = tracer.list_lengths()
    assert name == SHORTER and f"{typical} pieces in place of {longest}" in tracer.list_variants()[name]
    whole, shorter = tracer.trace_step(PAIRS).estimate(), tracer.trace_step(PAIRS, SHORTER).estimate()
    assert whole.reason == shorter.reason == "" and whole.peak is not None and shorter.peak is not None
    assert whole.kind == "encoder-decoder" and any(one.kind == "slot" for one in whole.buffers)
    logits = 4 * PAIRS * (longest + 1) * ROWS  # a label for each piece and END
    assert logits < whole.peak < 3 * logits
    assert shorter.peak / whole.peak == pytest.approx((typical + 1) / (longest + 1), rel=0.1)


@pytest.mark.slow
def test_a_translation_is_traced_to_its_greatest_length(card):
    tracer = WORKLOAD.build_step_tracer(card, "predict")
    found = tracer.trace_step(PAIRS).estimate()
    assert found.reason == "" and found.peak is not None
    assert 2 * 4 * PAIRS * ROWS < found.peak < 8 * 4 * PAIRS * ROWS, "logits of one piece alone, and their softmax"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("engine.xla=true", "engine.xla: got true"),
        ("placement={engine: mirrored, variables: mirrored, merge: ring}", "placement.engine: got 'mirrored'"),
    ],
)
def test_what_is_not_traced_alone_is_refused(given, said):
    card = load_checked_card(CARD, [given])
    assert isinstance(card, TranslationCard)
    with pytest.raises(CardError, match=said):
        WORKLOAD.build_step_tracer(card, "train")


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "pairs"), [("train", 64), ("train", 512), ("predict", 512)])
def test_estimates_are_near_the_peaks_that_are_measured(mode, pairs):
    (measured,) = measure_card(CARD, pairs, mode=mode)["batches"]
    record = estimate_card(load_checked_card(CARD, ()), mode, [pairs], savings=False)
    assert record is not None and record["points"][0]["peak"] == pytest.approx(measured["least"], rel=0.10)
