"""The regression of a table: its arrays are scikit-learn's, and the network's outputs have the targets' scale."""

import keras
import numpy as np
from sklearn.datasets import load_diabetes

from tfperf.zoo.tabular import build_model, load_samples


def test_the_arrays_are_scikit_learns_in_another_order():
    x, y = load_samples()
    assert (x.shape, y.shape) == ((442, 10), (442, 1)) and x.dtype == y.dtype == np.float32
    rows = np.hstack([x, y])
    wanted = np.column_stack(load_diabetes(return_X_y=True)).astype(np.float32)
    assert not np.array_equal(rows, wanted)
    np.testing.assert_array_equal(rows[np.lexsort(rows.T)], wanted[np.lexsort(wanted.T)])
    np.testing.assert_allclose((x.astype(float) ** 2).sum(axis=0), 1, rtol=1e-5)


def test_the_model_starts_near_the_targets_and_takes_a_step():
    keras.utils.set_random_seed(1)
    x, y = load_samples()
    model = build_model()
    found = np.asarray(model(x))
    assert found.shape == y.shape and abs(found.mean() - y.mean()) < y.std() and 0.2 < found.std() / y.std() < 3
    before = model.get_weights()
    model.jit_compile = False  # XLA takes seconds to compile it
    logs = model.train_on_batch(x[:32], y[:32], return_dict=True)
    assert {*logs} == {"loss", "mae", "r2"} and np.isfinite(list(logs.values())).all()
    assert all(np.any(one != other) for one, other in zip(before, model.get_weights(), strict=True))
