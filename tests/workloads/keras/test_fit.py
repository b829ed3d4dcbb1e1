"""Fits of Keras models from cards: the same as Keras' own, resumed to the same bits."""

import json
import warnings
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest
from click.testing import CliRunner

import tfperf
from tests.workloads.keras import nets
from tests.workloads.keras.running import CALLBACKS, NETS
from tfperf.cli import main
from tfperf.data.keys import Purpose, make_generator
from tfperf.errors import CardError
from tfperf.report.style import to_png
from tfperf.runcard.data_sources import DataSource, ModelSource
from tfperf.runcard.model_optimizer import ModelOptimizer
from tfperf.train.snapshots import check_snapshot
from tfperf.workloads.keras.card import EpochSchedule, KerasCard, LoopEngine
from tfperf.workloads.keras.inputs import read_data
from tfperf.workloads.keras.models import make_model
from tfperf.workloads.keras.page import draw_curves, render_report
from tfperf.workloads.keras.training import KerasTraining

CARD = """
workload: keras
seed: 3
model:
  build: {nets}:{model}
data:
  build: {nets}:{data}
  batch: 16
  validation: 0.25
train:
  epochs: 5
  checkpoint_every: 4
engine:
  xla: false
"""


@pytest.fixture
def write_card(tmp_path):
    def write(model="build_mlp", data="load"):
        path = tmp_path / "card.yaml"
        path.write_text(CARD.format(nets=NETS, model=model, data=data))
        return path

    return write


def run(*arguments, code=0):
    done = CliRunner().invoke(main, [str(one) for one in arguments])
    assert done.exit_code == code, done.output
    return done.output


def select(data, rows):
    return keras.tree.map_structure(lambda array: array[rows], data)


def train_with_keras(build, data, epochs=5, batch=16, seed=3):
    """History and weights of Keras' own `fit`, with the order that tfperf draws."""
    keras.utils.set_random_seed(seed)
    model = build()
    data = keras.tree.map_structure(lambda a: a.astype("float32") if a.dtype.kind == "f" else a, data)
    whole = len(keras.tree.flatten(data)[0])
    count = whole - round(0.25 * whole)
    held = select(data, slice(count, None))
    history: dict[str, list[float]] = {}
    for epoch in range(epochs):
        order = make_generator(seed, epoch, Purpose.ORDER).permutation(count)
        inputs, targets, *weights = select(data, order)
        found = model.fit(
            inputs, targets, batch, sample_weight=weights[0] if weights else None, shuffle=False, verbose=0,
            validation_data=held,
        ).history  # fmt: skip
        for name, values in found.items():
            history.setdefault(name, []).extend(values)
    return history, model


@pytest.mark.parametrize(
    ("model", "data"),
    [
        ("build_mlp", "load"),
        ("build_adversaries", "load"),
        pytest.param("build_two_inputs", "load_two", marks=pytest.mark.slow),
    ],
)
def test_a_fit_is_keras_own(write_card, tmp_path, model, data):
    run("fit", write_card(model, data), "-o", tmp_path / "run")
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["choices"]["loop"] == "tfperf" and report["steps"] == 20
    wanted, plain = train_with_keras(getattr(nets, model), getattr(nets, data)())
    with h5py.File(tmp_path / "run" / "results.h5") as file:
        found = {name: file["history"][name][()].tolist() for name in file["history"]}
    assert {*found} == {*wanted}
    for name, values in wanted.items():
        np.testing.assert_allclose(found[name], values, rtol=2e-6, err_msg=name)
    objects = {"Adversaries": nets.Adversaries}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras does not build a second optimizer before it loads it
        mine = keras.saving.load_model(tmp_path / "run" / "model.keras", custom_objects=objects)
    for one, other in zip(mine.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
    best = int(np.argmin(found.get("val_loss", found["loss"])))
    assert report["best"]["epoch"] == best + 1


def test_a_run_that_was_killed_resumes_to_the_same_bits(write_card, tmp_path, monkeypatch):
    card, real = write_card(), KerasTraining.call
    run("fit", card, "-o", tmp_path / "whole")

    def call(self, steps):
        if self.step >= 12:
            raise MemoryError("as good as killed")
        return real(self, steps)

    monkeypatch.setattr(KerasTraining, "call", call)
    steps = ["--set", "train.steps_per_call=3"]
    assert CliRunner().invoke(main, ["fit", str(card), "-o", str(tmp_path / "run"), *steps]).exit_code == 1
    monkeypatch.undo()
    assert "going on from step 12" in run("fit", card, "-o", tmp_path / "run", "--resume", *steps)
    for name in ("model.keras", "best.keras"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "run" / name).read_bytes(), name
    one, other = (json.loads((tmp_path / name / "report.json").read_text()) for name in ("whole", "run"))
    assert (one["last"], one["best"]) == (other["last"], other["best"]) and other["resumed_from_steps"] == [12]


def prepare(model, data, xla=False, **changes):
    """A training of a card that is made here."""
    card = KerasCard(
        workload="keras", model=ModelSource(build=f"{NETS}:{model}"), engine=LoopEngine(xla=xla),
        data=DataSource(build=f"{NETS}:{data}", batch=16), train=EpochSchedule(**{"epochs": 2, **changes}),
    )  # fmt: skip
    data = read_data(card)
    training = KerasTraining(card, make_model(card), data, Path("callbacks"))
    training.choose()
    return training


def test_what_a_card_changes_leaves_the_rest_of_compile():
    training = prepare("build_weighted", "load_pair", optimizer=ModelOptimizer(name="Adam"))
    training.call(5)
    assert training.optimizers == ("adam",) and "b_mse" in training.logs
    assert training.logs["loss"] > 50 * training.logs["b_loss"], "weighed as compiled"


def test_odd_steps_and_logs_are_taken_and_what_no_checkpoint_keeps_is_named(tmp_path):
    training = prepare("build_odd", "load")
    assert training.state.find_unkept_draws() == ["RandomStandardNormal"]
    training.call(5)
    assert training.logs == {"loss": 2, "deep/er": 3, "each": 1} and {*training.history} == {"loss", "deep:er", "each"}
    state = training.snapshot()
    assert not [*check_snapshot(state)] and any("dense" in name for name in state)
    training.call(2)
    training.restore(state)
    for name, value in training.snapshot().items():
        np.testing.assert_array_equal(value, state[name], err_msg=name)


def test_figures_that_are_not_finite_or_oddly_named_end_no_run(write_card, tmp_path):
    card, names = write_card("build_unfinished"), {"loss", "val_own", ".:", "gone", "val_alone"}
    said = run("fit", card, "-o", tmp_path / "run")
    assert "warning: weights of the model are not finite: unfinished/lost\n" in said and "gone: nan" in said
    result = tfperf.load(tmp_path / "run")
    assert {*result.history} == names == {*result.summary["last"]} and "gone=nan" in repr(result)
    assert result.summary["best"] == {"epoch": 5, "loss": min(result.history["loss"])}, "which no val_loss is"
    said = run("compare", tmp_path / "run", tmp_path / "run")
    assert "gone after the last epoch: not finite" in said and "from quartile to quartile of the calls" in said
    choices = {**result.summary["choices"], "compilation": "XLA step"}
    assert "all variables are to the bit those of Keras" in (tmp_path / "run" / "report.html").read_text()
    assert "within 1e-5 of those of Keras" in render_report("", {**result.summary, "choices": choices}, {})
    figure = draw_curves(dict(result.history))
    assert {"alone", "own"} <= {axis.get_ylabel() for axis in figure.axes} and to_png(figure)


def test_samples_are_counted_also_where_the_last_batch_is_shorter():
    training = prepare("build_linear", "load")
    counts = [training.call(steps) and training.samples_timed for steps in (4, 1, 5)]
    assert counts == [64, 70, 140]


def test_texts_are_never_given_to_xla_which_would_end_the_process():
    training = prepare("build_reader", "load_texts", xla="auto")
    assert [*training.choices.ms_per_step] == ["graph"] and training.call(5) == 5
    with pytest.raises(CardError, match=r"engine\.xla: the data have texts"):
        prepare("build_reader", "load_texts", xla=True)


@pytest.mark.slow
def test_a_builder_that_draws_gives_the_same_data_to_a_resumed_run(write_card, tmp_path):
    run("fit", write_card(data="draw"), "-o", tmp_path / "one")
    run("fit", write_card(data="draw"), "-o", tmp_path / "two")
    assert (tmp_path / "one" / "model.keras").read_bytes() == (tmp_path / "two" / "model.keras").read_bytes()
    state = json.loads((tmp_path / "one" / "run.json").read_text())
    assert "the arrays of data" in state["inputs"]


def test_where_the_loops_do_not_agree_keras_takes_the_steps(write_card, tmp_path, monkeypatch):
    from tfperf.workloads.keras import memory_feed
    from tfperf.workloads.keras.loops import MemoryLoop

    class Wrong(MemoryLoop):
        def _take_step(self, rows):
            return super()._take_step(rows[::-1])  # other sums, other draws

    monkeypatch.setattr(memory_feed, "MemoryLoop", Wrong)
    said = run("fit", write_card(), "-o", tmp_path / "run")
    assert "Keras' own train function takes the steps: after 3 steps " in said
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["choices"]["loop"] == "keras" and report["steps"] == 20


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["data.build={nets}:build_mlp"], "data.build: nets.py:build_mlp: returned Sequential; must be NumPy arrays"),
        (["model.build={nets}:build_eager"], "model: is compiled with run_eagerly=True"),
        (["model.build={nets}:build_two_inputs"], "data: batches have 1 inputs; the model takes 2: number, word"),
        (["data.build={nets}:fail_in_a_step"], "data: targets: 1 of 52 samples are not finite, the first is number 35"),
    ],
)
def test_faults_are_told_and_nothing_is_begun(write_card, tmp_path, changes, said):
    sets = [one for change in changes for one in ("--set", change.format(nets=NETS))]
    output = run("fit", write_card(), "-o", tmp_path / "run", *sets, code=2)
    assert said in output and "Traceback" not in output
    assert "not finite" in output or not (tmp_path / "run" / "run.json").exists()


def test_what_keras_cannot_save_is_told_before_the_first_step_and_its_variables_are_kept(write_card, tmp_path):
    said = run("fit", write_card("build_unsaved"), "-o", tmp_path / "run")
    warned = (
        "warning: the model cannot be saved as .keras; its variables will be in weights.h5: NotImplementedError: never"
    )
    assert warned in said and said.index(warned) < said.index("compiling")
    with h5py.File(tmp_path / "run" / "weights.h5") as file:
        assert [array.shape for array in file.values()] == [(6, 1), (1,)]


def test_check_says_what_a_fit_would_run_and_runs_nothing(tmp_path):
    code = tmp_path / "mine.py"
    code.write_text("raise SystemError('it ran')\n\ndef build(): ...\n\ndef load(): ...\n")
    card = tmp_path / "card.yaml"
    card.write_text(CARD.format(nets="mine.py", model="build", data="load"))
    said = run("check", card)
    assert f"build() of {code}; a fit runs this code" in said and f"load() of {code}" in said
    code.unlink()
    assert f"no such file: {code}; must be a Python file" in run("check", card, code=2)
    card.write_text(CARD.format(nets="mine.py", model="build me", data="load"))
    assert "must be a function: file.py:function or module:function" in run("check", card, code=2)


def test_the_example_card_passes_the_check(tmp_path):
    (tmp_path / "model.py").write_text("def build_model(): ...\n")
    (tmp_path / "data.py").write_text("def load(): ...\n")
    run("init", "--workload", "keras", tmp_path / "card.yaml")
    assert "build_model() of" in run("check", tmp_path / "card.yaml")
    text = (tmp_path / "card.yaml").read_text()
    assert "# memory:" in text and "validation: 0.2" in text


@pytest.mark.slow
def test_another_version_of_the_users_file_is_refused_at_a_resume(write_card, tmp_path):
    own = tmp_path / "nets_of_mine.py"
    own.write_text(NETS.read_text())
    card = write_card()
    card.write_text(card.read_text().replace(str(NETS), own.name))
    run("fit", card, "-o", tmp_path / "run")
    for text in ("import tfperf_made_up_missing\n", "import tfperf_made_up_beside\n"):
        (tmp_path / "tfperf_made_up_beside.py").write_text("")
        own.write_text(f"{text}\n{NETS.read_text()}")
        said = run("fit", card, "-o", tmp_path / "run", "--resume", code=2)
        assert "model.build: not the file that the run began with" in said and "No module" not in said, "none of it ran"
    run("fit", card, "-o", tmp_path / "run", "--force")
    (tmp_path / "tfperf_made_up_beside.py").write_text("number = 1\n")
    said = run("fit", card, "-o", tmp_path / "run", "--resume", code=2)
    assert "model.build imports tfperf_made_up_beside.py: not the file that the run began with" in said
    said = run("compare", tmp_path / "run", tmp_path / "run")
    assert (
        "val_loss after the last epoch" in said and "best val_loss" in said and "cards and files are the same" in said
    )


def test_steps_are_profiled_and_swept(write_card, tmp_path):
    run("profile", write_card(), "--repeat", 1, "-o", tmp_path / "profile", "--set", "profile={steps: 24, skip: 3}",
        "--set", "train.epochs=50", "--set", "train.steps_per_call=3",
        "--set", f"train.callbacks=[{{build: {CALLBACKS}:build_norms}}]")  # fmt: skip
    report = json.loads((tmp_path / "profile" / "report.json").read_text())
    account = report["account"]
    assert report["steps"] == 24
    told = [(one["cause"], one["name"]) for one in account["charges"]]
    assert ("validation", "") in told and ("callback", "Norms.on_epoch_end") in told
    # 53 of 70 samples train, in four steps
    assert account["expected_epochs"] == account["steps"] / 4 and abs(account["epochs"] - account["steps"] / 4) < 1
