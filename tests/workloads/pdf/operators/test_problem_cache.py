"""The second run of a card finds its problem and folded points made; another card or pack makes its own."""

from dataclasses import replace

import numpy as np
import pytest

from tests import make_hadronic
from tests.make_pack import make_pack
from tests.train.problems import make_problem
from tfperf.data.cache import VARIABLE, digest
from tfperf.workloads.pdf import forms
from tfperf.workloads.pdf.data.covariance import CovarianceMatrix
from tfperf.workloads.pdf.operators import hadronic, loss_constants
from tfperf.workloads.pdf.operators import problem as module
from tfperf.workloads.pdf.operators.loss_constants import truncate_whitening
from tfperf.workloads.pdf.operators.problem import select_replicas

PARTS = ("observables", "data", "training", "covariance")


def made(problem):
    return digest([getattr(problem, name) for name in PARTS])


@pytest.fixture
def calls(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    out = []
    for where, name in ((module, "compile_observables"), (module, "_sample_replica_data"),
                        (forms, "build_linear_basis"), (forms, "build_folded")):  # fmt: skip
        real = getattr(where, name)
        monkeypatch.setattr(where, name, lambda *a, real=real, name=name: out.append(name) or real(*a))  # type: ignore[func-returns-value]
    return out


def everything(folder, *overrides, **card):
    loaded, problem = make_problem(folder, ["engine.form=folded", *overrides], **card)
    return made(problem), digest(forms.build_form(loaded, problem, "folded").build_constants(problem, "float32"))


def test_second_time_nothing_is_made_and_all_is_the_same(tmp_path, calls):
    first = everything(tmp_path)
    count = len(calls)
    assert set(calls) == {"compile_observables", "_sample_replica_data", "build_linear_basis", "build_folded"}
    assert everything(tmp_path) == first and len(calls) == count
    assert everything(tmp_path, "engine.cache=false") == first and len(calls) == 2 * count


def test_other_data_are_never_taken_for_these(tmp_path, calls):
    found = [everything(tmp_path)]
    for overrides in (["data.cuts={x_min: 0.1}"], ["seed=9"], ["replicas=2-4"], ["data.exclude=[CCC_ADD]"]):
        found.append(everything(tmp_path, *overrides))
        assert found[-1] == everything(tmp_path, *overrides, "engine.cache=false")
    make_pack(tmp_path / "pack.h5", seed=4)
    found.append(everything(tmp_path))
    assert found[-1] == everything(tmp_path, "engine.cache=false")
    assert len({one for one, _ in found}) == len(found)


def test_the_covariance_is_whitened_once_for_all_stacks(tmp_path, monkeypatch):
    _, problem = make_problem(tmp_path)
    calls = []
    real = module.build_whitening  # type: ignore[attr-defined]
    monkeypatch.setattr(module, "build_whitening", lambda *a, **k: calls.append(a) or real(*a, **k))  # type: ignore[func-returns-value]
    some = select_replicas(problem, np.array([0]))
    assert some.whitening is problem.whitening and len(calls) == 1
    truncate_whitening(some, np.float32)
    truncate_whitening(problem)
    assert len(calls) == 1
    doubled = replace(problem, covariance=CovarianceMatrix(2 * problem.covariance.diagonal, problem.covariance.columns))
    np.testing.assert_allclose(2 * doubled.whitening.inverse_sigma**2, problem.whitening.inverse_sigma**2)
    assert len(calls) > 1


def test_what_has_no_replicas_is_made_once_for_all_stacks(tmp_path, monkeypatch):
    make_hadronic.make_pack(tmp_path / "pack.h5")
    overrides, rows = ["engine.cache=false", "engine.tolerance=1e-3"], [np.array([0, 1]), np.array([2, 3])]
    (card, first), (_, second) = (make_problem(tmp_path, overrides, replicas=4) for _ in range(2))
    form = forms.build_form(card, first, "folded")
    alone = [select_replicas(replace(second, memo=module.Memo()), r) for r in rows]
    want, calls = digest([form.build_constants(problem, "float64") for problem in alone]), []
    for where, name in ((loss_constants, "compile_observables"), (hadronic, "compute_cores")):
        real = getattr(where, name)
        monkeypatch.setattr(where, name, lambda *a, real=real, name=name: calls.append(name) or real(*a))  # type: ignore[func-returns-value]
    got = [form.build_constants(select_replicas(first, rows[0]), "float64")]
    count = len(calls)
    assert {"compile_observables", "compute_cores"} == set(calls)
    got.append(form.build_constants(select_replicas(first, rows[1]), "float64"))
    assert digest(got) == want and len(calls) == count
    fewer = replace(form, hadronic_rank=form.hadronic_rank - 1)
    constants = fewer.build_constants(select_replicas(first, rows[1]), "float64")
    assert constants is not None and constants.points.core is not None
    assert len(constants.points.core.restrict) == fewer.hadronic_rank
