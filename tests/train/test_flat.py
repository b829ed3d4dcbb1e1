import numpy as np

from tfperf.train.flat import Flattener


def test_rows_hold_each_replicas_numbers_and_come_apart_again():
    shapes = [(3, 2, 4), (3, 4, 1), (3, 5)]
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=s) for s in shapes]
    flat = Flattener(shapes)
    weights = flat.join(parts).numpy()
    assert weights.shape == (3, 17)
    for r in range(3):
        np.testing.assert_array_equal(weights[r], np.concatenate([p[r].ravel() for p in parts]))
    for part, again in zip(parts, flat.split(weights), strict=True):
        np.testing.assert_array_equal(part, again.numpy())
