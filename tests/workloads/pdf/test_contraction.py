from itertools import pairwise

import numpy as np
import pytest
import tensorflow as tf

from tests import make_hadronic as hadronic
from tfperf.workloads.pdf import luminosities
from tfperf.workloads.pdf.contraction import Contraction, join_columns
from tfperf.workloads.pdf.operators.observables import compile_observables

NODES = int((hadronic.X < 1).sum())


@pytest.mark.parametrize("slab_bytes", [luminosities.SLAB_BYTES, 10_000])
@pytest.mark.parametrize("xla", [False, True])
def test_values_and_gradient_are_those_of_the_observables(xla, slab_bytes, monkeypatch):
    monkeypatch.setattr(luminosities, "SLAB_BYTES", slab_bytes)
    observables = compile_observables(*hadronic.sets(), NODES, ((0, 1, 2), (3, 4, 5, 6)))
    rng = np.random.default_rng(4)
    scale = rng.uniform(0.5, 2, observables.row_count)
    contraction = Contraction(observables, scale, 0, "float64")
    pdf, upstream = hadronic.pdf(rng, 3)[..., :NODES], rng.normal(size=(3, observables.row_count))

    @tf.function(jit_compile=xla)
    def both(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            raw = join_columns([contraction(x)[start] for start, _ in contraction.row_ranges])
        return raw, tape.gradient(raw, x, output_gradients=tf.constant(upstream))

    raw, gradient = (t.numpy() for t in both(tf.constant(pdf)))
    np.testing.assert_allclose(raw, observables.predict_raw(pdf) * scale, rtol=1e-12)
    for r, f, x in [(0, 0, 0), (1, 3, 4), (2, 7, NODES - 1), (0, 5, 2)]:
        step = np.zeros_like(pdf)
        step[r, f, x] = 1e-4  # bilinear: central differences are exact
        up, down = (observables.predict_raw(pdf + sign * step)[r] for sign in (1, -1))
        slope = ((up - down) * scale / 2e-4) @ upstream[r]
        np.testing.assert_allclose(gradient[r, f, x], slope, rtol=1e-7, atol=1e-7)


def test_every_run_is_made_of_whole_pieces():
    datasets, positivity = hadronic.sets()
    observables = compile_observables(datasets, positivity, NODES, [(i,) for i in range(len(datasets))])
    contraction = Contraction(observables, np.ones(observables.row_count), 0, "float32")
    for run in observables.row_slices:
        row_ranges = contraction.select_ranges(run)
        assert row_ranges[0][0] == run.start and row_ranges[-1][1] == run.stop
        assert all(a[1] == b[0] for a, b in pairwise(row_ranges))
