"""A run whose basis of PDFs is too small, from card to report."""

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

import tfperf
from tests.make_pack import make_card
from tests.runs.conftest import same_bits
from tests.runs.test_resume import interrupted
from tfperf.cli import main
from tfperf.errors import ToleranceError
from tfperf.results.rundir import load_state
from tfperf.train.checkpoint import Checkpoints
from tfperf.workloads.options import Options
from tfperf.workloads.pdf.forms import build_form
from tfperf.workloads.replica_chunks import ReplicaChunk

pytestmark = pytest.mark.usefixtures("blank_pictures")

CARD = ["engine.form=folded", "engine.tolerance=1e-3", "engine.check_every=20", "train.stopping.patience=60"]
CARD += ["data.sets=[{name: AAA_F2}, {name: AAA_FL}, {name: CCC_ADD}]"]


@pytest.fixture(scope="module", autouse=True)
def few_directions(blank_pictures_of_module):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tfperf.workloads.pdf.forms.build_form", lambda *given: replace(build_form(*given), rank=10))
        patch.setattr("tfperf.workloads.pdf.report.html.render_html", lambda *_: "")  # seconds each
        yield


@pytest.fixture(scope="module")
def raised(few_directions, tmp_path_factory):
    folder = tmp_path_factory.mktemp("raised")
    return folder, tfperf.fit(make_card(folder, steps=60), folder / "run", overrides=CARD)


def test_checks_are_in_report_and_checkpoint(raised):
    folder, result = raised
    engine = json.loads((folder / "run" / "report.json").read_text())["engine"]
    exactness = engine["exactness"]["1-3"]
    assert engine["form"] == "folded" and exactness["tolerance"] == 1e-3
    checks = np.array(exactness["checks"])
    assert checks[:, 0].tolist() == [20, 40, 60] and checks[0, 1] == 10 and checks[0, 2] > 1e-3
    assert exactness["worst_sampled"] == checks[:, 2].max()
    assert exactness["rank"] > 10 and exactness["worst_best"] < 1e-3 and exactness["violated"] is False
    state = load_state(folder / "run", ReplicaChunk)
    arrays, _ = Checkpoints(folder / "run" / "checkpoints", state.identity, state.parts[0].key).load()
    np.testing.assert_array_equal(arrays["tolerance/checks"], checks)
    assert result.summary["engine"]["exactness"]["1-3"]["rank"] == exactness["rank"]


@pytest.mark.slow
def test_run_stopped_after_a_raise_resumes_to_the_same_bits(raised, tmp_path, monkeypatch):
    folder, _ = raised
    card, run = make_card(tmp_path, steps=60), tmp_path / "run"
    interrupted(card, run, monkeypatch, 30, CARD)
    result = tfperf.fit(card, run, overrides=CARD, options=Options(resume=True))
    assert result.summary["resumed_from_steps"] == [30]
    same_bits(folder / "run", run)
    both = [json.loads((f / "run" / "report.json").read_text())["engine"]["exactness"] for f in (folder, tmp_path)]
    assert both[0] == both[1]


@pytest.mark.slow
def test_violation_at_the_best_weights_is_said_and_mended(tmp_path, capfd):
    late = [*CARD, "engine.check_every=1000"]
    result = tfperf.fit(make_card(tmp_path, steps=20), tmp_path / "run", overrides=late, quiet=False)
    exactness = result.summary["engine"]["exactness"]["1-3"]
    assert exactness["refitted"] and not exactness["violated"]
    assert exactness["checks"] == [] and exactness["worst_best"] > 1e-3
    said = " ".join(capfd.readouterr().err.split())
    assert "at best weights: they are fitted again, exactly" in said


def test_command_line_ends_with_code_2_where_the_card_wants_it(tmp_path):
    card = make_card(tmp_path, steps=40)
    keys = [*CARD, "engine.on_violation=fail"]
    arguments = ["fit", str(card), "-o", str(tmp_path / "run"), "-q", *(a for k in keys for a in ("--set", k))]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2 and "Traceback" not in result.output
    assert "error: engine.tolerance: at step 20 chi2 per point is off by" in result.output
    assert "got 0.001 with 10 directions; allowed: a larger tolerance" in result.output


def test_weights_of_sets_and_folding_do_not_go_together(tmp_path):
    keys = ["data.sets=[{name: AAA_F2, weight: 2}]", "engine.form=folded"]
    arguments = ["fit", str(make_card(tmp_path)), "-o", str(tmp_path / "run"), "-q"]
    result = CliRunner().invoke(main, [*arguments, *(a for k in keys for a in ("--set", k))])
    assert result.exit_code == 2 and "engine.form: got 'folded'; the fit has weights of sets" in result.output


@pytest.mark.slow
def test_replicas_that_are_off_at_their_best_weights_are_fitted_again_exactly(few_directions, tmp_path):
    """All three: the same bits as without a tolerance; the run holds no violation, and says whom it fitted again."""
    overrides = [*CARD, "engine.on_violation=refit"]
    result = tfperf.fit(make_card(tmp_path, steps=60), tmp_path / "run", overrides=overrides)
    exactness = result.summary["engine"]["exactness"]["1-3"]
    assert exactness["refitted"] == [1, 2, 3] and exactness["violated"] is False and exactness["off"] == []
    assert exactness["worst_best"] > 1e-3 and {rank for _, rank, _ in exactness["checks"]} == {10}
    exact = ["engine.form=shared", *CARD[2:]]
    alone = tfperf.fit(tmp_path / "card.yaml", tmp_path / "alone", overrides=exact)
    np.testing.assert_array_equal(result.pdf, alone.pdf)
    np.testing.assert_array_equal(result.replicas.chi2_validation, alone.replicas.chi2_validation)
    assert result.summary["chi2_per_point"] == alone.summary["chi2_per_point"]


@pytest.mark.slow
def test_exact_fits_have_the_t0_that_the_run_made_first(few_directions, tmp_path, monkeypatch):
    monkeypatch.setattr("tfperf.workloads.pdf.job.T0_REPLICAS", 2)
    card, run = make_card(tmp_path, steps=20, replicas=2), tmp_path / "run"
    result = tfperf.fit(card, run, overrides=[*CARD, "engine.on_violation=refit", "data.t0=fit"])
    assert result.summary["engine"]["exactness"]["1-2"]["refitted"] == [1, 2]
    exact = ["engine.form=shared", *CARD[2:]]
    alone = tfperf.fit(card, tmp_path / "alone", overrides=[*exact, f"data.t0={run / 't0'}"])
    np.testing.assert_array_equal(result.pdf, alone.pdf)
    assert not (run / "exact" / "1-2" / "t0").exists()


@pytest.mark.slow
def test_a_retried_replica_is_fitted_exactly_from_the_weights_of_its_own_attempt(few_directions, tmp_path, monkeypatch):
    from tfperf.workloads.pdf.model import PDF

    initialize, seen = PDF.initialize, list[tuple[int, int]]()

    def break_first_attempt(self, seed, ids, attempts):
        initialize(self, seed, ids, attempts)
        pairs = list(zip(ids, attempts, strict=True))
        seen.extend(pairs)
        kernel = self.hidden[0].kernel
        broken = np.array([pair == (2, 0) for pair in pairs])[:, None, None]
        kernel.assign(np.where(broken, np.nan, kernel.numpy()))

    monkeypatch.setattr(PDF, "initialize", break_first_attempt)
    card, run = make_card(tmp_path, steps=20, replicas=2), tmp_path / "run"
    overrides = [*CARD, "engine.on_violation=refit"]
    first = tfperf.fit(card, run, overrides=overrides)
    assert first.replicas.status[1] == "quarantined"
    seen.clear()
    again = tfperf.fit(card, run, overrides=overrides, options=Options(retry_failed=True))
    assert set(seen) == {(2, 1)} and again.replicas.attempt.tolist() == [0, 1]
    assert again.converged.all() and (run / "exact" / "2-2_1").is_dir()


@pytest.mark.slow
def test_some_that_are_off_leave_the_others_as_they_are(few_directions, tmp_path, monkeypatch):
    from tfperf.workloads.pdf import tolerance

    compute = tolerance.Chi2Check.compute_best_deviations

    def compute_of_the_second(*given):
        each = compute(*given)
        return None if each is None else each * np.array([0.0, 1.0, 0.0])

    monkeypatch.setattr(tolerance.Chi2Check, "compute_best_deviations", compute_of_the_second)
    overrides = [*CARD, "engine.on_violation=refit"]
    result = tfperf.fit(make_card(tmp_path, steps=60), tmp_path / "run", overrides=overrides)
    assert result.summary["engine"]["exactness"]["1-3"]["refitted"] == [2]
    alone = tfperf.load(tmp_path / "run" / "exact" / "2-2")
    np.testing.assert_array_equal(result.pdf[1], alone.pdf[0])
    assert np.any(result.pdf[0] != result.pdf[1])
    before = (tmp_path / "run" / "results.h5").read_bytes()
    tfperf.fit(tmp_path / "card.yaml", tmp_path / "run", overrides=overrides, options=Options(resume=True))
    assert (tmp_path / "run" / "results.h5").read_bytes() == before


def test_fail_stops_where_replicas_are_off_at_the_end(few_directions, tmp_path):
    overrides = [*CARD, "engine.on_violation=fail", "engine.check_every=1000"]
    with pytest.raises(ToleranceError, match=r"of 3 replicas is off by up to .* at best weights"):
        tfperf.fit(make_card(tmp_path, steps=60), tmp_path / "run", overrides=overrides)
