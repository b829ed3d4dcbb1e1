"""The tagger's memory, planned from a batch of 8 up: the optimizer's phase is not what larger batches need."""

from pathlib import Path

import numpy as np
import pytest

from tfperf.measure.memory_law import fit_law
from tfperf.runcard.dump import to_json_tree
from tfperf.study.child import run_subprocess
from tfperf.study.memory import COMMAND
from tfperf.workloads.cards import load_checked_card

CARD = Path(__file__).parents[2] / "runcards" / "tagger.yaml"
WORDS = 200_000  # of a table whose update needs more than the activations of small batches
PLANNED, LARGE = (8, 16, 32, 64, 256, 320, 400), 500


@pytest.mark.slow
def test_a_line_through_the_optimizers_phase_is_too_low_and_the_law_is_not(tmp_path):
    tree = to_json_tree(load_checked_card(CARD, [f"model.arguments.words={WORDS}"]))

    def measure(batch):
        request = {"card": tree, "mode": "train", "device": "cpu-arena", "limit": 2 * 2**30, "batch": batch,
                   "length": None, "share": None, "more": 0, "folder": str(tmp_path / str(batch))}  # fmt: skip
        record = run_subprocess(COMMAND, request, lambda: False, 300)
        assert record is not None and "batches" in record, record
        return record["batches"][0]["least"]

    peaks = {batch: measure(batch) for batch in (*PLANNED, LARGE)}
    truth = peaks.pop(LARGE)
    law = fit_law(list(peaks.items()))
    small = [batch for batch in PLANNED if batch <= 64]
    naive = np.polynomial.Polynomial.fit(small, [peaks[batch] for batch in small], 1)(LARGE)
    print({batch: round(peak / 1e6) for batch, peak in peaks.items()}, round(truth / 1e6), round(naive / 1e6), law)
    assert naive < 0.8 * truth and set(small) <= {*law.left_out}
    assert law.predict(LARGE) == pytest.approx(truth, rel=0.05)
