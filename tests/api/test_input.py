"""`tfperf.input_report` of functions, cards and objects."""

import json
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfperf
from tfperf.api import input as api
from tfperf.errors import CardError
from tfperf.study.trial_log import TrialLog
from tfperf.workloads import input_trial

X = np.ones((64, 4), "float32")


def build():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    model.compile("adam", "mse")
    return model


def load():
    made = tf.data.Dataset.range(64).map(lambda i: (tf.fill((4,), tf.cast(i, tf.float32)), tf.zeros((2,))), name="make")
    return made.batch(8, name="batch").prefetch(2, name="ahead")


@pytest.fixture
def asked(monkeypatch):
    """The cards that studies in fresh processes are asked for."""
    found = []

    def study(card, folder, show, **options):
        found.append((card, folder, options))
        return {"bound": "model"}

    monkeypatch.setattr(api, "run_input_study", study)
    return found


@pytest.fixture
def short(monkeypatch):
    """Blocks too short for good figures, which tests that look at no figure need not wait for."""
    monkeypatch.setattr(input_trial, "BLOCK_SECONDS", 0.05)


@pytest.mark.slow
def test_objects_are_measured_here(tmp_path):
    found = tfperf.input_report(load(), build(), tmp_path / "out", workers=4, seconds=1, settings={"engine.xla": False})
    assert [one["name"] for one in found.stages] == ["range", "make", "batch", "ahead"]
    assert found.path == tmp_path / "out" and len(found.to_pandas()) == 4
    assert found.knee is not None and 1 <= found.knee <= 4 and found.waits <= 1
    assert repr(found) == f"InputResult({found.bound}, waits={found.waits:.2f}, knee={found.knee})"
    written = json.loads((tmp_path / "out" / "input.json").read_text())
    assert written["lines"] == found.lines and found.lines[0] in (tmp_path / "out" / "report.html").read_text()
    assert json.loads(found.save(tmp_path / "saved.json").read_text())["lines"] == found.lines


def test_functions_and_arrays_go_to_fresh_processes_by_a_card(asked, tmp_path):
    tfperf.input_report(load, build, tmp_path / "one", workers=6, sweep=True, seconds=2, timeout=5)
    tfperf.input_report((X, X[:, :2]), build, tmp_path / "two", batch=16, settings={"engine.xla": False})
    (first, folder, options), (second, _, _) = asked
    assert folder == tmp_path / "one" and first.data.build.startswith(str(tmp_path / "one_code"))
    assert options == {"sweep": True, "seconds": 2, "timeout": 5, "most": 6}
    assert second.data.batch == 16 and second.data.file is not None and second.engine.xla is False


def test_a_card_has_its_folder_as_second_argument(asked, tmp_path):
    (tmp_path / "nets.py").write_text("def build(): ...\n\n\ndef load(): ...\n")
    (tmp_path / "card.yaml").write_text(
        "workload: keras\nmodel: {build: 'nets.py:build'}\ndata: {build: 'nets.py:load'}\ntrain: {epochs: 1}\n"
    )
    found = tfperf.input_report(tmp_path / "card.yaml", tmp_path / "out", overrides=["seed=5"])
    assert asked[0][0].seed == 5 and found.path == tmp_path / "out" and found.bound == "model"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seconds": 0}, "seconds: got 0; must be seconds from 1 to 3600"),
        ({"seconds": True}, "seconds: got True"),
        ({"timeout": float("nan")}, "timeout: got nan"),
        ({"workers": 1}, "workers: got 1; must be a number of workers from 2 to 256"),
        ({"workers": 2.5}, "workers: got 2.5"),
        ({"sweep": True}, "sweep: needs fresh processes; data: an object of this one"),
        ({"model": None}, "model: missing"),
        ({"data": build(), "model": X}, "data: got the keras.Model sequential"),
        ({"output": X}, "output: got ndarray; must be a folder"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_measured(asked, options, message):
    arguments = {"data": tf.data.Dataset.range(4), "model": build, **options}
    with pytest.raises(CardError, match=re.escape(message)):
        tfperf.input_report(**arguments)
    assert not asked


def test_a_model_is_put_back_and_nothing_written_without_a_folder(short, monkeypatch):
    model = build()
    model.fit(X, X[:, :2], verbose=0)
    before = [np.array(one) for one in (*model.variables, *model.optimizer.variables)]
    monkeypatch.setattr(TrialLog, "save", lambda *_: pytest.fail("a log was written"))
    found = tfperf.input_report((X, X[:, :2]), model, seconds=1, batch=16, settings={"engine.xla": False})
    after = [*model.variables, *model.optimizer.variables]
    assert len(before) == len(after) > 4
    assert all(np.array_equal(one, np.array(other)) for one, other in zip(before, after, strict=True))
    assert found.path is None and found.knee is None and found.list_rows() == [] and found.stages == []
    assert found.lines[1] == "samples are in memory: no workers make them"
    assert 0 < found.report["free_cores"] <= found.report["cores"] and found.report["as_it_is"]["free_cores"]
