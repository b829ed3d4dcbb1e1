"""The command line as a user meets it: exit codes, one-line errors, no tracebacks."""

import json

import h5py
import pytest
from click.testing import CliRunner

from tests.make_pack import make_card
from tfperf.cli import main
from tfperf.measure import doctor
from tfperf.measure.doctor import DoctorCheck

pytestmark = pytest.mark.usefixtures("blank_pictures")


def call(*arguments):
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_check_prints_ok_and_the_plan(tmp_path):
    result = call("check", make_card(tmp_path))
    assert result.exit_code == 0
    assert result.stdout.startswith("ok\n")
    assert "points      95" in result.output and "parameters  763 per replica" in result.output
    assert "GB predicted peak" in result.output


def test_check_names_every_fault_with_its_line(tmp_path):
    card = make_card(tmp_path)
    card.write_text(card.read_text().replace("seed: 7", "sed: 7").replace("xla: false", "xla: no"))
    result = call("check", card)
    assert result.exit_code == 2
    assert f"{card}:2: sed: unknown key" in result.output and "did you mean `seed`" in result.output
    assert f"{card}:9: engine.xla" in result.output


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("data.sets=[{name: AAA_F3}]", "AAA_F3"),
        ("data.exclude=[CCC]", "CCC"),
        ("positivity.sets=[POSS]", "did you mean `POS`"),
        ("data.cuts={x_min: 0.99}", "data.cuts"),
        ("data.pack=nothing.h5", "nothing.h5"),
        ("covariance.extra=card.yaml", "card.yaml"),
        ("train.steps=0", "train.steps"),
    ],
)
@pytest.mark.parametrize("verb", ["check", "fit"])
def test_faults_between_card_and_data_are_told_without_a_traceback(tmp_path, verb, override, words):
    output = ("-o", tmp_path / "run") if verb == "fit" else ()
    result = call(verb, make_card(tmp_path), "--set", override, *output)
    assert result.exit_code == 2 and words in result.output
    assert not (tmp_path / "run" / "results.h5").exists()


def test_fit_prints_the_table_and_exits_with_3_when_a_replica_failed(tmp_path):
    card = make_card(tmp_path, replicas=2, steps=20)
    good = call("fit", card, "-o", tmp_path / "good", "-q", "--set", "engine.form=auto")
    assert good.exit_code == 0 and "AAA_F2" in good.output and "report.html" in good.output
    engine = json.loads((tmp_path / "good" / "report.json").read_text())["engine"]
    assert [t["form"] for t in engine["tried"]] == [engine["form"]], "20 steps cannot pay for another trial"
    # a prediction and its negative cannot both be positive: no replica passes the gate
    with h5py.File(tmp_path / "pack.h5", "a") as file:
        table = file["positivity/POS/fk"]
        table[-1] = -table[0]
    bad = call("fit", card, "-o", tmp_path / "bad", "-q")
    report = json.loads((tmp_path / "bad" / "report.json").read_text())
    assert report["replicas"]["by_status"] == {"no_positivity": 2} and bad.exit_code == 3


def test_replicas_option_sets_and_checks_ids(tmp_path):
    card = make_card(tmp_path, steps=20)
    result = call("fit", card, "-o", tmp_path / "run", "-q", "--replicas", "5-6")
    assert result.exit_code == 0
    assert call("fit", card, "-o", tmp_path / "run2", "--replicas", "6-5").exit_code == 2


def test_init_writes_a_card_that_passes_the_check_and_never_overwrites(tmp_path):
    make_card(tmp_path)
    target = tmp_path / "new.yaml"
    assert call("init", target, "--pack", "pack.h5").exit_code == 0
    assert call("check", target).exit_code == 0
    before = target.read_text()
    assert call("init", target, "--pack", "pack.h5").exit_code == 2 and target.read_text() == before


def test_schema_accepts_the_card(tmp_path):
    import jsonschema
    import yaml

    schema = json.loads(call("schema").output)
    jsonschema.validate(yaml.safe_load(make_card(tmp_path).read_text()), schema)


def test_postfit_and_export_read_a_run(tmp_path):
    card = make_card(tmp_path, replicas=3, steps=20)
    call("fit", card, "-o", tmp_path / "run", "-q")
    assert call("postfit", tmp_path / "run").exit_code == 0
    assert (tmp_path / "run" / "postfit.json").exists()
    export = ("export-lhapdf", tmp_path / "run", "-o", tmp_path, "--name", "toy")
    asked = call(*export)
    assert asked.exit_code == 2 and "the data pack does not say order, alphas_mz, mc, mb" in asked.output
    theory = [word for one in ("order=NLO", "alphas_mz=0.118", "mc=1.51", "mb=4.92") for word in ("--theory", one)]
    assert call(*export, *theory).exit_code == 0
    assert (tmp_path / "toy" / "toy_0003.dat").exists()
    assert call("postfit", tmp_path / "nowhere").exit_code == 2


def test_closure_takes_its_level_from_the_command_line(tmp_path):
    card = make_card(tmp_path, replicas=2, steps=20)
    result = call("closure", card, "--level", "2", "-o", tmp_path / "run", "-q")
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert result.exit_code == 0 and report["closure"]["level"] == 2
    assert report["closure"]["chi2_to_truth_per_point"] > 0


@pytest.mark.parametrize(("state", "code"), [("ok", 0), ("warning", 0), ("missing", 1)])
def test_doctor_prints_and_ends_with_1_where_nothing_runs(monkeypatch, state, code):
    monkeypatch.setattr(doctor, "check_machine", lambda: [DoctorCheck("TensorFlow", state, "2.21.3", "do this")])
    result = call("doctor")
    first, *more = result.output.splitlines()
    assert (result.exit_code, first.split()) == (code, [state, "TensorFlow:", "2.21.3;", "do", "this"])
    assert any(line.split()[1:3] == ["workload", "pdf:"] for line in more)
