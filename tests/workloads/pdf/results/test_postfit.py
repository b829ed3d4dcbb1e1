import json
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from tests.make_result import make_result
from tfperf.errors import RunDirectoryError, UserError
from tfperf.workloads.pdf.inputs import average_pdf
from tfperf.workloads.pdf.kind import POSTFIT
from tfperf.workloads.pdf.results import store
from tfperf.workloads.pdf.results.postfit import Failure, apply_postfit, make_veto_table, read_survivors, veto_replicas
from tfperf.workloads.pdf.results.veto_figures import INTEGRABLE


def make(replicas=40, failed=0, **columns):
    """A result whose replicas are alike but for the given columns."""
    result = make_result(replicas=replicas, sets=1, failed=failed)
    calm = 1 + 0.01 * np.cos(np.arange(replicas))
    lost = ~result.converged
    fresh = {
        "chi2_experimental": np.where(lost, np.nan, calm), "arc_length": np.repeat(calm[:, None], 8, axis=1),
        "integrability": np.full((replicas, 5), 0.1),
    }  # fmt: skip
    return replace(result, replicas=replace(result.replicas, **(fresh | columns)))


def determine(result, sigmas):
    """Survivors by plain loops, as package nnpdf has them: all vetoes anew in each round."""
    record = result.replicas
    rows = [[record.chi2_experimental[r], *record.arc_length[r, :5]] for r in range(len(record.id))]
    good = [status in ("stopped", "max_steps") for status in record.status]
    smooth = [all(value <= 0.5 for value in row) for row in record.integrability]
    left = list(good)
    while True:
        masks = [good, smooth]
        for column in range(6):
            values = [rows[r][column] for r in range(len(rows)) if left[r]]
            if len(values) <= 1:
                masks.append(left)
                continue
            mean = sum(values) / len(values)
            sigma = (sum((v - mean) ** 2 for v in values) / len(values)) ** 0.5
            masks.append([row[column] - mean <= sigmas * sigma for row in rows])
        now = [all(one) for one in zip(*masks, strict=True)]
        if sum(now) == sum(left):
            return [int(number) for number, passes in zip(record.id, left, strict=True) if passes]
        left = now


def test_a_calm_fit_passes():
    report = veto_replicas(make())
    assert report.passed == tuple(range(1, 41)) and report.failures == () and report.total == 40


def test_a_large_chi2_is_named_with_value_and_limit():
    chi2 = 1 + 0.01 * np.cos(np.arange(40))
    chi2[6] = 1.5
    report = veto_replicas(make(chi2_experimental=chi2))
    assert report.passed == tuple(i for i in range(1, 41) if i != 7)
    rest = np.delete(chi2, 6)
    limit = np.mean(rest) + 4 * np.std(rest)
    assert report.failures == (Failure(7, "chi2", 1.5, pytest.approx(limit)),)  # type: ignore[arg-type]
    assert report.limits["chi2"].limit == pytest.approx(limit)


def test_what_hides_behind_a_larger_one_falls_in_the_next_round():
    chi2 = 1 + 0.01 * np.cos(np.arange(40))
    chi2[3], chi2[6], chi2[9] = 100.0, 2.0, 1.06
    report = veto_replicas(make(chi2_experimental=chi2))
    assert [(f.replica, f.veto) for f in report.failures] == [(4, "chi2"), (7, "chi2"), (10, "chi2")]
    assert {f.limit for f in report.failures} == {report.limits["chi2"].limit}  # of the last round


def test_a_small_chi2_is_no_fault():
    chi2 = np.ones(40)
    chi2[6] = 0.1
    assert len(veto_replicas(make(chi2_experimental=chi2)).passed) == 40


def test_an_arc_length_is_named_by_its_flavour():
    lengths = np.repeat((1 + 0.01 * np.cos(np.arange(40)))[:, None], 8, axis=1)
    lengths[11, 1] = 3.0
    (failure,) = veto_replicas(make(arc_length=lengths)).failures
    assert (failure.replica, failure.veto, failure.value) == (12, "arc length of g", 3.0)


@pytest.mark.parametrize("flavour", [5, 6, 7])
def test_arc_lengths_of_flavours_that_nnpdf_leaves_out_are_no_fault(flavour):
    lengths = np.repeat((1 + 0.01 * np.cos(np.arange(40)))[:, None], 8, axis=1)
    lengths[11, flavour] = 3.0
    assert len(veto_replicas(make(arc_length=lengths)).passed) == 40


def test_a_sum_rule_that_does_not_converge_is_named_by_its_flavour():
    numbers = np.full((40, 5), 0.5)
    numbers[11, 3] = 0.51
    report = veto_replicas(make(integrability=numbers))
    assert report.failures == (Failure(12, "integrability of t8", 0.51, 0.5),) and len(report.passed) == 39


def test_results_without_integrability_are_judged_by_the_rest():
    report = veto_replicas(make(integrability=None))
    assert len(report.passed) == 40 and "no integrability numbers" in " ".join(rendered(report).split())


def test_exactly_so_many_are_chosen_and_counted_anew(tmp_path):
    chi2 = 1 + 0.01 * np.cos(np.arange(40))
    chi2[2] = 1.5
    run = stored(tmp_path, result := make(chi2_experimental=chi2))
    report = apply_postfit(run, count=5)
    assert report.chosen == (1, 2, 4, 5, 6) and len(report.passed) == 39
    survivors = read_survivors(run, result)
    assert survivors is not None and list(result.replicas.id[survivors]) == [1, 2, 4, 5, 6]
    assert "the first 5 are chosen, as 1 to 5" in " ".join(rendered(report).split())
    with pytest.raises(UserError, match="-n: got 40; 39 of 40 replicas"):
        apply_postfit(run, count=40)
    assert json.loads((run / POSTFIT).read_text())["chosen"] == [1, 2, 4, 5, 6]  # as it was


def test_who_failed_training_is_named_and_sets_no_limits():
    report = veto_replicas(make(failed=2))
    assert [(f.replica, f.veto, f.value) for f in report.failures] == [
        (2, "quarantined", None),
        (4, "positivity", 3e-4),
    ]
    assert set(report.passed) == set(range(1, 41)) - {2, 4} and np.isfinite(report.limits["chi2"].limit)


@pytest.mark.parametrize("value, words", [(np.nan, "is not finite"), (1e308, "is beyond 1e+100")])
def test_one_figure_without_a_square_does_not_veto_the_others(value, words):
    chi2 = np.ones(40)
    chi2[6] = value
    report = veto_replicas(make(chi2_experimental=chi2))
    assert report.failures == (Failure(7, f"chi2 {words}", None, None),) and len(report.passed) == 39


@pytest.mark.parametrize("replicas", [1, 2, 17])
def test_four_sigma_needs_eighteen_replicas(replicas):
    chi2 = np.ones(replicas)
    chi2[0] = 1000.0
    report = veto_replicas(make(replicas, chi2_experimental=chi2))
    assert len(report.passed) == replicas
    assert "fewer than 18 replicas" in rendered(report)


def test_eighteen_replicas_are_enough():
    chi2 = np.ones(18)
    chi2[0] = 1000.0
    assert [f.replica for f in veto_replicas(make(18, chi2_experimental=chi2)).failures] == [1]


def test_nobody_left_is_no_crash():
    result = make(3)
    report = veto_replicas(replace(result, replicas=replace(result.replicas, status=("quarantined",) * 3)))
    assert report.passed == () and report.limits == {} and "0 of 3" in rendered(report)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 60), st.sampled_from([1.1, 2.3, 3.9]))
def test_equals_plain_loops(seed, replicas, sigmas):
    rng = np.random.default_rng(seed)
    result = make(
        replicas, failed=min(2, replicas // 2), chi2_experimental=rng.standard_t(1.5, replicas) ** 2,
        arc_length=rng.lognormal(sigma=1.5, size=(replicas, 8)),
        integrability=rng.uniform(0, 0.51, size=(replicas, 5)),
    )  # fmt: skip
    if result.converged.any():
        assert list(veto_replicas(result, sigmas).passed) == determine(result, sigmas)


@pytest.mark.parametrize("sigmas", [0, -1.0, float("nan"), float("inf"), 1e200])
def test_sigmas_must_be_positive_and_finite(sigmas):
    with pytest.raises(UserError, match="must be above 0"):
        veto_replicas(make(), sigmas)


def rendered(report):
    file = StringIO()
    console = Console(file=file, width=120)
    console.print(make_veto_table(report))
    return file.getvalue()


def test_table_names_replica_veto_value_and_limit():
    chi2 = 1 + 0.01 * np.cos(np.arange(40))
    chi2[6] = 1.5
    text = rendered(veto_replicas(make(failed=1, chi2_experimental=np.where(np.arange(40) == 1, np.nan, chi2))))
    assert "38 of 40 replicas pass" in text and "quarantined" in text and "n/a" in text
    row = next(line for line in text.splitlines() if "chi2" in line and "1.5" in line)
    assert row.split()[1] == "7"


def stored(tmp_path, result):
    store.write(tmp_path / "results.h5", result)
    return tmp_path


def test_the_report_is_kept_beside_the_results(tmp_path):
    chi2 = 1 + 0.01 * np.cos(np.arange(40))
    chi2[6] = 1.5
    result = make(failed=1, chi2_experimental=np.where(np.arange(40) == 1, np.nan, chi2))
    run = stored(tmp_path, result)
    assert read_survivors(run, result) is None
    report = apply_postfit(run)
    kept = json.loads((run / POSTFIT).read_text(), parse_constant=pytest.fail)  # no NaN in JSON
    assert kept["passed"] == list(report.passed) and kept["total"] == 40 and kept["sigmas"] == 4
    assert [(f["replica"], f["veto"]) for f in kept["failures"]] == [(2, "quarantined"), (7, "chi2")]
    survivors = read_survivors(run, result)
    assert survivors is not None and list(np.flatnonzero(~survivors)) == [1, 6]


def test_a_report_on_other_results_is_refused(tmp_path):
    run = stored(tmp_path, make())
    apply_postfit(run)
    result = make(replicas=41)
    stored(tmp_path, result)
    with pytest.raises(RunDirectoryError, match="run `tfperf postfit` again"):
        read_survivors(run, result)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"passed": [1]}', '{"passed": "ab", "results_sha256": ""}'])
def test_a_damaged_report_is_refused(tmp_path, text):
    run = stored(tmp_path, result := make())
    (run / POSTFIT).write_text(text)
    with pytest.raises(RunDirectoryError, match="damaged"):
        read_survivors(run, result)


def test_no_results_is_a_clear_error(tmp_path):
    with pytest.raises(RunDirectoryError, match=r"results\.h5"):
        apply_postfit(tmp_path)


def test_the_mean_of_a_run_is_of_those_that_pass():
    """It is the t0 of other runs, and the law of closure tests."""
    result = make_result(replicas=6, failed=0)
    good = np.zeros((6, len(INTEGRABLE)))
    good[2, 0] = 0.6
    vetoed = replace(result, replicas=replace(result.replicas, integrability=good))
    rest = [0, 1, 3, 4, 5]
    np.testing.assert_allclose(average_pdf(vetoed), result.pdf[rest].mean(axis=0), rtol=1e-12)
    none = replace(result, replicas=replace(result.replicas, integrability=np.ones((6, len(INTEGRABLE)))))
    np.testing.assert_allclose(average_pdf(none), result.pdf.mean(axis=0), rtol=1e-12)
