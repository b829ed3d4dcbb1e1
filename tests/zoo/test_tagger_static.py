"""The static estimate of the tagger, whose loops go over words and over labels, against measured peaks."""

import pytest

from tests.runcard.cards import ROOT
from tests.workloads.memory_process import measure_card
from tfperf.study.static_memory import estimate_card
from tfperf.workloads.cards import load_checked_card

CARD = ROOT / "runcards" / "tagger.yaml"


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "batch"), [("train", 256), ("predict", 512)])
def test_estimates_are_near_the_peaks_that_are_measured(mode, batch):
    (measured,) = measure_card(CARD, batch, mode=mode)["batches"]
    record = estimate_card(load_checked_card(CARD, ()), mode, [batch], savings=False)
    assert record is not None and record["kind"] == "recurrent"
    assert record["points"][0]["peak"] == pytest.approx(measured["least"], rel=0.20)
