import numpy as np
import pytest
import tensorflow as tf

from tests import make_hadronic as hadronic
from tfperf.measure.lowering import Lowering
from tfperf.workloads.pdf import luminosities
from tfperf.workloads.pdf.contraction import Contraction
from tfperf.workloads.pdf.luminosities import count_slab_rows
from tfperf.workloads.pdf.operators.observables import compile_observables

NODES, REPLICAS = int((hadronic.X < 1).sum()), 3


@pytest.fixture(scope="module", params=[16, 6])
def made(request):
    """With and without rows that fill a box up, for blocks of equal size."""
    observables = compile_observables(*hadronic.sets(), NODES, ((0, 1, 2), (3, 4, 5, 6)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(luminosities, "PADDING", request.param)
        made = Contraction(observables, np.ones(observables.row_count), 0, "float32").luminosities
    rows, width = made.box.shape
    assert (rows == width) == (request.param == 16)
    return made


def gradient(made, xla):
    width = made.box.shape[1]
    rng = np.random.default_rng(2)
    flat, upstream = (tf.constant(rng.normal(size=(REPLICAS, n)), tf.float32) for n in (width, made.rows))

    @tf.function(jit_compile=xla)
    def function(flat, upstream):
        with tf.GradientTape() as tape:
            tape.watch(flat)
            raw = made(flat)
        return tape.gradient(raw, flat, output_gradients=upstream)

    return function, flat, upstream


def test_a_gradient_in_blocks_holds_no_slope_of_every_pair_of_numbers_for_every_replica(made, monkeypatch):
    rows, width = made.box.shape
    whole = f"f32[{rows},{width},{REPLICAS}]"
    assert whole in Lowering(*gradient(made, xla=True)).compile_hlo()  # it is small, and held
    monkeypatch.setattr(luminosities, "SLAB_BYTES", 4 * rows * width * REPLICAS // 2)
    assert whole not in Lowering(*gradient(made, xla=True)).compile_hlo()


@pytest.mark.parametrize("xla", [False, True])
@pytest.mark.parametrize("count", [2, 16])
def test_blocks_change_no_more_than_the_order_of_sums(made, xla, count, monkeypatch):
    function, *arguments = gradient(made, xla)
    whole = function(*arguments).numpy()
    rows, width = made.box.shape
    monkeypatch.setattr(luminosities, "SLAB_BYTES", 4 * rows * width * REPLICAS // count)
    function, *arguments = gradient(made, xla)
    # float32 sums of D terms, and products that are the same in both
    bound = width * np.finfo(np.float32).eps * np.abs(whole).max()
    np.testing.assert_allclose(function(*arguments).numpy(), whole, rtol=0, atol=bound)


@pytest.mark.parametrize(("rows", "row_bytes", "want"), [
    (304, 1, 304), (304, luminosities.SLAB_BYTES // 34, 19), (304, luminosities.SLAB_BYTES, 1),
    (304, 10 * luminosities.SLAB_BYTES, 1), (16, luminosities.SLAB_BYTES // 16, 16),
])  # fmt: skip
def test_blocks_divide_the_rows_and_fit_a_cache(rows, row_bytes, want):
    assert count_slab_rows(rows, row_bytes) == want
