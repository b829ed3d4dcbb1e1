import numpy as np
import pytest

from tfperf.workloads.pdf.results import store


@pytest.fixture(autouse=True)
def _blank_pictures(blank_pictures):
    """Fits of one test are not drawn; `finished` is."""


def same_bits(a, b):
    """Assert that two runs found the same, clock readings apart."""
    a, b = (store.read(run / "results.h5") for run in (a, b))
    np.testing.assert_array_equal(a.pdf, b.pdf)
    for name, value in a.weights.items():
        np.testing.assert_array_equal(value, b.weights[name], err_msg=name)
    for record in ("replicas", "history"):
        for name, value in vars(getattr(a, record)).items():
            np.testing.assert_array_equal(value, vars(getattr(b, record))[name], err_msg=name)
    for one, other in zip(a.datasets, b.datasets, strict=True):
        np.testing.assert_array_equal(one.predictions, other.predictions)
        assert one.chi2 == other.chi2


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """Folder with a card, its pack and a finished run of it, `run`; not to be changed."""
    from tests.make_pack import make_card
    from tfperf.runs.fit import fit

    folder = tmp_path_factory.mktemp("finished")
    fit(make_card(folder, steps=120), folder / "run")
    return folder
