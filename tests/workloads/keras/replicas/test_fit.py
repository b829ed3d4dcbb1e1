"""Ensembles from cards and from Python: runs, results, what is refused."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from click.testing import CliRunner

import tfperf
from tests.workloads.keras.replicas import nets
from tests.workloads.keras.replicas.interrupting import interrupt_at_save
from tfperf.cli import main
from tfperf.errors import CardError, RunDirectoryError, UserError
from tfperf.workloads.keras.replicas import outcome

NETS = Path(nets.__file__)
CARD = """
workload: keras
seed: 2
replicas: {replicas}
ensemble: {{data: {data}, patience: 4}}
model: {{build: "{nets}:{model}"}}
data: {{build: "{nets}:{load}", batch: 16, validation: 0.2}}
train: {{epochs: {epochs}, checkpoint_every: 10}}
engine: {{xla: false, form: {form}}}
"""


@pytest.fixture
def card(tmp_path):
    def write(replicas=4, data="bootstrap", model="build", load="load", epochs=6, form="lanes"):
        path = tmp_path / "card.yaml"
        path.write_text(
            CARD.format(replicas=replicas, data=data, nets=NETS, model=model, load=load, epochs=epochs, form=form)
        )
        return path

    return write


def run(*arguments, code=0):
    done = CliRunner().invoke(main, [str(one) for one in arguments])
    assert done.exit_code == code, done.output
    return done.output


def same(one: Path, other: Path, limit=0.0):
    a, b = (outcome.read(folder / "results.h5") for folder in (one, other))
    assert a.replicas.status == b.replicas.status
    for name in outcome.INTEGERS:
        np.testing.assert_array_equal(getattr(a.replicas, name), getattr(b.replicas, name), err_msg=name)
    for first, second in ((a.weights, b.weights), (a.history, b.history)):
        assert {*first} == {*second}
        for name in first:
            np.testing.assert_allclose(first[name], second[name], rtol=limit, atol=limit, err_msg=name)


def test_a_run_from_a_card_and_replicas_that_are_added(card, tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    said = run("fit", card(), "-o", whole)
    assert "replicas: 4 of 4 usable" in said and "form: lanes, graph" in said
    run("fit", card(), "-o", parts, "--replicas", "2")
    first = json.loads((parts / "report.json").read_text())["seconds"]
    run("fit", card(), "-o", parts, "--replicas", "3-4")
    same(whole, parts)
    choices = [part["choices"]["cached"] for part in json.loads((parts / "run.json").read_text())["parts"]]
    assert choices == [False, True]  # two replicas were trained before
    added = json.loads((parts / "report.json").read_text())
    assert [one["replicas"] for one in added["parts"]] == [[1, 2], [3, 4]] and added["ms_per_step"]["median"] is None
    assert all(one["ms_per_step"]["median"] > 0 and one["resumed_from_steps"] == [] for one in added["parts"])
    assert added["seconds"]["total"] > first["total"] and added["seconds"]["build"] > first["build"]
    report = json.loads((whole / "report.json").read_text())
    assert report["ms_per_step"] == report["parts"][0]["ms_per_step"] and len(report["parts"]) == 1
    assert report["replicas"]["total"] == 4 and report["monitored"] == "val_loss"
    assert report["settings"] == {
        "seed": 2, "data": "bootstrap", "epochs": 6, "batch": 16, "patience": 4, "learning_rate": pytest.approx(5e-3),
        "loss_weight": None, "callbacks": 0,
    }  # fmt: skip
    text = (whole / "report.html").read_text()
    assert "Losses and metrics" in text and "misses the validation targets by" in text
    assert "replica 3 is there already" in run("fit", card(), "-o", parts, "--replicas", "3-5", code=2)
    said = run("predict", whole, "-o", tmp_path / "rows", code=2)
    assert f"to predict with an ensemble use tfperf.load('{whole}').predict(x)" in said
    found = tfperf.load(whole)
    assert found.predict(nets.load()[0]).shape == (4, nets.SAMPLES, 1)


@pytest.mark.slow
def test_stacked_agrees_with_lanes(card, tmp_path):
    for form in ("lanes", "stacked"):
        run("fit", card(form=form), "-o", tmp_path / form)
    same(tmp_path / "lanes", tmp_path / "stacked", limit=1e-4)


@pytest.mark.parametrize("form", [pytest.param("lanes", marks=pytest.mark.slow), "stacked"])
def test_an_interrupted_run_goes_on_to_the_bit(card, tmp_path, form):
    path = card(form=form)
    run("fit", path, "-o", tmp_path / "whole")
    with interrupt_at_save(2):
        tfperf.fit(path, tmp_path / "cut", overrides=["train.steps_per_call=7"])
    run("fit", path, "-o", tmp_path / "cut", "--resume", "--set", "train.steps_per_call=7")
    assert outcome.read(tmp_path / "cut" / "results.h5").summary["resumed_from_steps"]
    same(tmp_path / "whole", tmp_path / "cut")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["lanes", "stacked"])
def test_a_replica_that_breaks_leaves_the_others_to_the_bit(card, tmp_path, form):
    masks = f'{{build: "{NETS}:mask", arguments: {{samples: 72}}}}'
    sound, broken = (tmp_path / name for name in ("sound", "broken"))
    run("fit", card(data=masks, form=form), "-o", sound)
    said = run("fit", card(data=masks, load="load_broken", form=form), "-o", broken, code=3)
    assert "broken: 2" in said
    a, b = (outcome.read(folder / "results.h5") for folder in (sound, broken))
    assert b.replicas.status[1] == "quarantined" and b.replicas.is_usable.tolist() == [True, False, True, True]
    for name, values in a.weights.items():
        np.testing.assert_array_equal(values[[0, 2, 3]], b.weights[name][[0, 2, 3]], err_msg=name)
    assert "broken: 2" in run(
        "fit", card(data=masks, load="load_broken", form=form), "-o", broken, "--retry-failed", code=3
    )
    assert outcome.read(broken / "results.h5").replicas.attempt.tolist() == [0, 1, 0, 0]


def test_from_python_with_predictions_and_a_file(tmp_path):
    x, y = nets.load()
    fit = tfperf.ensemble(nets.build, replicas=5, seed=3, data="bootstrap").fit(
        x, y, epochs=3, batch_size=16, validation=(x[:20], y[:20]), sample_weight=np.ones(len(x)),
    )  # fmt: skip
    found = fit.predict(x, batch_size=37)
    np.testing.assert_allclose(fit.mean(x), found.mean(axis=0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(fit.std(x), found.std(axis=0, ddof=1), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        fit.quantiles(x, [0.16, 0.84]), np.quantile(found, [0.16, 0.84], axis=0), rtol=1e-5, atol=1e-6
    )
    model = fit.model(4)
    assert isinstance(model, keras.Model)
    np.testing.assert_allclose(model.predict(x, verbose=0), found[3], rtol=1e-5, atol=1e-6)
    again = tfperf.load(fit.save(tmp_path / "ensemble.h5"))
    np.testing.assert_array_equal(again.predict(x), fit.predict(x))
    assert again.replicas.id.tolist() == [1, 2, 3, 4, 5] and "5 of 5" in repr(again)
    with pytest.raises(UserError, match="there are 1 to 5, 5 in all"):
        fit.model(6)
    with pytest.raises(UserError, match="numbers from 0 to 1"):
        fit.quantiles(x, [50])
    with pytest.raises(RunDirectoryError):
        (tmp_path / "other.h5").write_bytes(b"no HDF5")
        tfperf.load(tmp_path / "other.h5")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"model": nets.build_seeded}, "keras.utils.set_random_seed.*allow it by same_start=True"),
        ({"data": np.ones((2, 9), bool)}, r"bool of shape \(3, 72\)"),
        ({"data": np.arange(3 * 72).reshape(3, 72) % 5 > 0}, "must select as many for each replica"),
        ({"data": "jackknife"}, "must be all, bootstrap or a mapping"),
        ({"learning_rate": [1e-3]}, "must have as many values as there are replicas: 3"),
        ({"patience": 0}, "ensemble.patience: got 0"),
        ({"replicas": 0}, "replicas: got 0"),
        ({"model": nets.build_own_step, "form": "stacked"}, "the model has a train_step of its own"),
    ],
)  # fmt: skip
def test_what_is_refused(settings, said):
    x, y = nets.load()
    given = {"replicas": 3, **settings}
    model = given.pop("model", nets.build)
    with pytest.raises(CardError, match=said):
        tfperf.ensemble(model, **given).fit(x, y, epochs=1, batch_size=16, validation=0.2)


@pytest.mark.slow
def test_equal_starts_are_allowed_where_they_are_wanted():
    x, y = nets.load()
    fit = tfperf.ensemble(nets.build_seeded, replicas=2, data="bootstrap", same_start=True).fit(x, y, epochs=1)
    assert not np.array_equal(*fit.predict(x))


def test_studies_of_steps_take_no_replicas(card, tmp_path):
    """They say so before anything is begun."""
    for verb, more in (("profile", ()), ("input", ()), ("memory", ()), ("memory", ("--static",))):
        said = run(verb, card(), "-o", tmp_path / verb, *more, code=2)
        assert f"`tfperf {verb}` looks at one model; the card trains 4 copies: add" in said and "[0/" not in said
        assert not (tmp_path / verb).exists() or verb == "profile"
    single = [part for one in ("replicas=null", "ensemble={}", "engine.form=auto") for part in ("--set", one)]
    assert f"add {' '.join(single)}" in said
    run("check", card(), *single)
    assert "profile: got a mapping; must be left out" in run("check", card(), "--set", "profile.steps=20", code=2)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL])
def test_a_killed_run_goes_on_to_the_bit(card, tmp_path, number):
    path = card(epochs=60)
    run("fit", path, "-o", tmp_path / "whole")
    command = [sys.executable, "-m", "tfperf", "fit", str(path), "-o", str(tmp_path / "cut")]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not list((tmp_path / "cut").glob("checkpoints/*.ckpt")) and child.poll() is None:
        pass
    child.send_signal(number)
    child.wait()
    run("fit", path, "-o", tmp_path / "cut", *([] if child.returncode == 0 else ["--resume"]))
    same(tmp_path / "whole", tmp_path / "cut")


@pytest.mark.slow
def test_ten_replicas_and_ten_more_are_twenty_to_the_bit(card, tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    path = card(replicas=20, epochs=60)
    run("fit", path, "-o", whole)
    run("fit", path, "-o", parts, "--replicas", "1-10")
    assert outcome.read(parts / "results.h5").replicas.id.tolist() == list(range(1, 11))
    run("fit", path, "-o", parts, "--replicas", "11-20")
    same(whole, parts)
    assert {"stopped"} <= {*outcome.read(whole / "results.h5").replicas.status}  # patience had its say
