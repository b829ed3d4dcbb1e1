import numpy as np
import pytest

from tests import reference
from tests.make_pack import FLAVOURS, X, make_pack
from tfperf.errors import PackError
from tfperf.workloads.pdf.card import FITTED
from tfperf.workloads.pdf.data.closure import compute_toy_pdf
from tfperf.workloads.pdf.data.pack import list_sets, open_pack, read_dataset, read_positivity
from tfperf.workloads.pdf.operators.basis import find_fitted_index
from tfperf.workloads.pdf.operators.observables import compile_observables


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    path = make_pack(tmp_path_factory.mktemp("pack") / "pack.h5")
    with open_pack(path) as file:
        return [read_dataset(file, n) for n in list_sets(file)], read_positivity(file, "POS")


def by_name(pdf):
    p = dict(zip(FITTED, pdf, strict=True))
    equal = {"v15": "v", "v24": "v", "v35": "v", "t24": "sigma", "t35": "sigma"}
    return p | {k: p[v] for k, v in equal.items()} | {"photon": np.zeros(len(X))}


def test_every_operation_is_its_formula_table_by_table(problem):
    datasets, positivity = problem
    assert {d.operation for d in datasets} == {"NULL", "RATIO", "ASY", "ADD", "SMN", "COM"}
    pdfs = np.stack([compute_toy_pdf(X), compute_toy_pdf(X) * np.linspace(0.8, 1.2, len(X))])
    observables = compile_observables(datasets, [positivity], len(X))
    want = np.stack([reference.predictions(datasets, by_name(p), FLAVOURS) for p in pdfs])
    np.testing.assert_allclose(observables.predict(pdfs), want, rtol=1e-12)
    values, channels = positivity.table.read_values(), positivity.table.channels
    table = np.stack([sum(values[..., k] @ by_name(p)[f] for k, (f,) in enumerate(channels)) for p in pdfs])
    np.testing.assert_allclose(observables.predict_positive(pdfs), table, rtol=1e-12)


def test_rotation_knows_all_flavours_of_a_pack_and_no_others():
    assert [find_fitted_index(f) for f in FLAVOURS] == [None, 0, 1, 2, 3, 4, 2, 2, 2, 5, 6, 7, 0, 0]
    with pytest.raises(PackError, match="'up'"):
        find_fitted_index("up")
