"""Arc lengths and integrability, held against slow sums over the same nodes and against what NNPDF's own code gives."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.workloads.pdf.results.curves import FLAVOURS, make_curves
from tfperf.workloads.pdf.results.record import EVOLUTION
from tfperf.workloads.pdf.results.veto_figures import (
    ARC_FLAVOURS,
    ARC_X,
    INTEGRABILITY_X,
    INTEGRABLE,
    VETO_X,
    compute_arc_lengths,
    compute_integrability,
)

REFERENCE = Path(__file__).parent / "veto_figures.json"


def test_lengths_and_sums_are_those_of_nnpdf():
    reference = json.loads(REFERENCE.read_text())
    replicas = len(reference["arc_lengths"])
    assert FLAVOURS == EVOLUTION
    assert reference["arc_flavours"] == list(ARC_FLAVOURS) and reference["integrable"] == list(INTEGRABLE)
    np.testing.assert_allclose(reference["x"], VETO_X, rtol=1e-13)
    curves = np.stack([make_curves(VETO_X, replica) for replica in range(replicas)])
    rows = [EVOLUTION.index(name) for name in ARC_FLAVOURS]
    lengths = compute_arc_lengths(curves[..., : ARC_X.size])
    np.testing.assert_allclose(lengths[:, rows], reference["arc_lengths"], rtol=1e-10)
    sums = compute_integrability(curves[..., -len(INTEGRABILITY_X) :])
    np.testing.assert_allclose(sums, reference["integrability"], rtol=1e-12)


@pytest.mark.parametrize("slope", [0.0, 1.0, 3.0])
def test_a_straight_line_has_its_length(slope):
    """x (x f) = slope x where x f = slope: all but three gaps at the ends of the segments."""
    curves = np.full((1, 1, ARC_X.size), slope)
    covered = sum(float(nodes[-1] - nodes[1]) for nodes in ARC_X)
    assert compute_arc_lengths(curves)[0, 0] == pytest.approx(covered * np.hypot(1, slope), rel=1e-9)


def test_a_replica_of_nan_has_no_length_and_the_others_do():
    curves = np.ones((2, 8, ARC_X.size))
    curves[0] = np.nan
    lengths = compute_arc_lengths(curves)
    assert np.isnan(lengths[0]).all() and np.isfinite(lengths[1]).all()
