"""`tfperf ablate` as a user meets it."""

import json

import pytest
from click.testing import CliRunner

from tests.make_pack import make_card
from tests.study.fakes import Trials, make_auto_card, run
from tfperf.cli import main
from tfperf.study import trial_log
from tfperf.study.trial_log import FILE


def call(*arguments):
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def ablate(folder, *more):
    return call("ablate", folder / "card.yaml", "-o", folder / "out", "--set", "engine.tolerance=1e-3", *more)


def test_a_finished_ablation_is_shown_again_with_exit_code_0(tmp_path):
    run(make_auto_card(tmp_path), tmp_path / "out", Trials())
    result = ablate(tmp_path, "-q")
    assert result.exit_code == 0 and "steps_per_call" in result.output and "ablation.png" in result.output


def test_losses_that_differ_end_with_1(tmp_path):
    run(make_auto_card(tmp_path), tmp_path / "out", Trials())
    path = tmp_path / "out" / FILE
    stored = json.loads(path.read_text())
    stored["trials"]["without form"]["losses"]["training"][1] *= 1 + 2e-5
    path.write_text(json.dumps(stored))
    assert ablate(tmp_path).exit_code == 2, "it was edited"
    path.write_text(json.dumps(stored | {"sha256": trial_log._digest(stored)}))
    result = ablate(tmp_path)
    assert result.exit_code == 1 and "DIFFER" in result.output
    assert "losses differ: without form: by 2.0e-05, allowed are 1e-05" in result.output


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--set", "engine.products=paded"), "engine.products"),
        (("--replicas", "6-5"), "--replicas"),
        (("--seconds", "0"), "--seconds"),
        (("--set", "data.t0=fit"), "data.t0"),
        (("--set", "engine.threads=measure"), "engine.threads"),
    ],
)
def test_bad_input_ends_with_2(tmp_path, more, words):
    make_card(tmp_path)
    result = ablate(tmp_path, *more)
    assert result.exit_code == 2 and words in result.output and not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_whole_ablation(tmp_path):
    make_card(tmp_path, replicas=3)
    result = ablate(tmp_path, "--seconds", "0.2", "--replicas", "2", "--set", "engine.form=folded")
    assert result.exit_code == 0, result.output
    report = json.loads((tmp_path / "out" / FILE).read_text())
    assert len(report["trials"]) >= 12 and report["replicas"] == 2
    assert report["series"][-1]["speedup_cumulative"] > 3  # it is tens; no timing is tested, only that there is one
