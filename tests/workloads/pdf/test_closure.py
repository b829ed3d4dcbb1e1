"""Fits of pseudo-data whose truth is known, on the shipped pack."""

from pathlib import Path

import numpy as np
import pytest

from tfperf.runs.fit import fit
from tfperf.workloads.pdf.cards import load_card

pytestmark = pytest.mark.usefixtures("blank_pictures")

CARD = Path(__file__).parents[3] / "runcards" / "pdf_dis.yaml"


def closure(folder, level, replicas, *overrides):
    sets = [f"closure={{level: {level}}}", f"replicas={replicas}", *overrides]
    return fit(load_card(CARD, sets), folder)


def inside_one_sigma(result, truth):
    """Whether the truth (8, X) lies within one standard deviation of the replicas around their mean: (8, nodes)."""
    nodes = (result.x > 1e-3) & (result.x < 0.5)
    pdf = result.pdf[result.converged][..., nodes]
    return np.abs(truth[:, nodes] - pdf.mean(axis=0)) < pdf.std(axis=0, ddof=1)


def test_level_0_finds_the_law(tmp_path):
    """Without noise nothing but the law is left to find; a tenth of the card's steps gets close."""
    result = closure(tmp_path / "run", 0, 5, "train.steps=1700", "engine.xla=true", "data.training_fraction=1.0")
    assert result.summary["chi2_per_point"] < 0.05
    assert result.summary["closure"]["chi2_to_truth_per_point"] == result.summary["chi2_per_point"]


@pytest.mark.slow
def test_level_0_finds_the_law_to_a_hundredth(tmp_path):
    summary = closure(tmp_path / "run", 0, 100).summary
    print(f"level 0: chi2 per point {summary['chi2_per_point']:.5f}")
    assert summary["chi2_per_point"] < 0.01


@pytest.mark.slow
def test_level_2_is_faithful_to_its_uncertainties(tmp_path):
    """25 tests, each with its own law and noise of the truth: distances to the truth, and how often one sigma holds it.

    The laws are replicas of a fit to the real data. Where the data say little, one law for all tests would lie always
    inside or always outside; laws that scatter as the replicas do test the width there, too.
    """
    laws = fit(load_card(CARD, ["replicas=25"]), tmp_path / "laws")
    distances, inside = [], []
    good = laws.converged  # positive as the fits are
    assert good.sum() >= 20
    for noise, (number, truth) in enumerate(zip(laws.replicas.id[good], laws.pdf[good], strict=True)):
        law = (f"closure.law={tmp_path / 'laws'}", f"closure.replica={number}")
        result = closure(tmp_path / f"run{noise}", 2, 40, *law, f"closure.noise={noise}", f"seed={100 + noise}")
        distances.append(result.summary["closure"]["chi2_to_truth_per_point"])
        inside.append(inside_one_sigma(result, truth))
        share = 100 * np.mean(inside[-1])
        print(
            f"noise {noise}: chi2 to the truth {distances[-1]:.4f} per point, inside one sigma {share:.0f} %",
            flush=True,
        )
    by_flavour = ", ".join(f"{100 * share:.0f}" for share in np.mean(inside, axis=(0, 2)))
    print(f"level 2: mean {np.mean(distances):.4f}, inside {100 * np.mean(inside):.1f} %, by flavour {by_flavour}")
    assert np.mean(distances) < 0.05
    assert 0.60 <= np.mean(inside) <= 0.76
