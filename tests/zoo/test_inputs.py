"""What all data of tfperf.zoo have in common: one order for good, and advice where scikit-learn is missing."""

import sys

import numpy as np
import pytest

from tfperf.errors import UserError
from tfperf.zoo import digits, tabular
from tfperf.zoo.inputs import reorder_samples


@pytest.mark.parametrize("module", [tabular, digits])
def test_without_scikit_learn_the_command_that_installs_it_is_told(monkeypatch, module):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(UserError, match=r'scikit-learn cannot be imported .*: pip install "\.\[zoo\]"'):
        module.load_samples()


def test_both_arrays_get_one_order_that_no_seed_changes():
    x = np.arange(1000)
    np.random.seed(1)
    first, second = reorder_samples(x, 2 * x)
    np.random.seed(2)
    np.testing.assert_array_equal(reorder_samples(x, x)[0], first)
    np.testing.assert_array_equal(2 * first, second)
    assert sorted(first) == list(x) and abs(first[-200:].mean() - 499.5) < 4 * 289 / np.sqrt(200)
