"""Pictures of digits: arrays, a fair split, a network that is augmented in training alone."""

import keras
import numpy as np
from sklearn.datasets import load_digits

from tests.zoo.splits import check_split
from tfperf.zoo.digits import build_model, load_samples


def test_the_arrays_are_scikit_learns_in_another_order():
    x, y = load_samples()
    assert (x.shape, y.shape) == ((1797, 8, 8, 1), (1797,)) and x.dtype == np.float32
    assert (x.min(), x.max()) == (0, 1) and {*y} == {*range(10)}
    rows = np.column_stack([16 * x.reshape(len(x), -1), y])
    wanted = np.column_stack(load_digits(return_X_y=True))
    np.testing.assert_array_equal(rows[np.lexsort(rows.T)], wanted[np.lexsort(wanted.T)])
    check_split(y)


def test_the_model_takes_a_step_and_moves_pictures_in_training_alone():
    keras.utils.set_random_seed(1)
    x, y = load_samples()
    model = build_model(filters=4, units=8)
    found = np.asarray(model(x[:50], training=False))
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(np.asarray(model(x[:50], training=False)), found)
    model.jit_compile = False  # XLA takes seconds to compile it
    logs = model.train_on_batch(x[:32], y[:32], return_dict=True)
    assert {*logs} == {"loss", "accuracy"} and np.isfinite(logs["loss"])
    for layer in model.layers[1:3]:
        assert np.any(layer(x[:5], training=True) != x[:5]) and np.all(layer(x[:5], training=False) == x[:5])
