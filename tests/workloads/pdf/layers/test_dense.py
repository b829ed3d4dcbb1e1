import numpy as np
import pytest
import tensorflow as tf

from tests import reference
from tfperf.workloads.pdf.layers.dense import StackedDense

MODES = {
    "eager": lambda f: f,
    "graph": lambda f: tf.function(f, autograph=False),
    "xla": lambda f: tf.function(f, jit_compile=True, autograph=False),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("replicas", [1, 3, 20])
def test_stacked_dense_is_each_replicas_own_dense(replicas, shared, mode):
    rng = np.random.default_rng(0)
    inputs, units, nodes = 5, 4, 7
    x = rng.normal(size=(inputs, nodes) if shared else (replicas, inputs, nodes)).astype(np.float32)
    layer = StackedDense(replicas, units, "linear")
    layer.build((inputs, None))
    kernel = rng.normal(size=(replicas, inputs, units)).astype(np.float32)
    bias = rng.normal(size=(replicas, units, 1)).astype(np.float32)
    layer.kernel.assign(kernel)
    layer.bias.assign(bias)
    got = MODES[mode](lambda t: layer(t))(tf.constant(x)).numpy()
    full = np.broadcast_to(x, (replicas, inputs, nodes)).astype(np.float64)
    want = reference.dense_loop(full, kernel, bias)
    # a float32 dot product of n terms errs by at most gamma_n |x|.|w| (Higham 2002, eq. 3.5)
    n, u = inputs + 1, np.finfo(np.float32).eps / 2
    assert np.all(np.abs(got - want) <= n * u / (1 - n * u) * reference.dense_loop(abs(full), abs(kernel), abs(bias)))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("replicas", [1, 3])
def test_gradients_are_those_of_single_products(replicas, shared, mode):
    """Of sum(c y): kernel x c^T, bias the sums of c, input kernel c, one replica at a time."""
    rng = np.random.default_rng(1)
    inputs, units, nodes = 5, 4, 7
    x = rng.normal(size=(inputs, nodes) if shared else (replicas, inputs, nodes))
    layer = StackedDense(replicas, units, "linear", dtype="float64")
    layer.build((inputs, None))
    kernel, c = rng.normal(size=(replicas, inputs, units)), rng.normal(size=(replicas, units, nodes))
    layer.kernel.assign(kernel)
    variables = [layer.kernel.value, layer.bias.value]

    def gradients(t):
        with tf.GradientTape() as tape:
            tape.watch(t)
            loss = tf.reduce_sum(c * layer(t))
        return tape.gradient(loss, [*variables, t])

    got = [g.numpy() for g in MODES[mode](gradients)(tf.constant(x))]
    full = np.broadcast_to(x, (replicas, inputs, nodes))
    inner = np.stack([kernel[r] @ c[r] for r in range(replicas)])
    want = [
        np.stack([full[r] @ c[r].T for r in range(replicas)]), c.sum(axis=2)[..., None],
        inner.sum(axis=0) if shared else inner,
    ]  # fmt: skip
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-12, atol=1e-12)
