"""Streams of batches: what Keras' own fit makes of them, resumed to the same bits, refused where they cannot be."""

import h5py
import keras
import numpy as np
import pytest

from tests.workloads.keras import nets
from tests.workloads.keras.running import NETS, fit, fit_twice, run, write_card

STREAM = {"build": f"{NETS}:stream"}


def open_run(folder):
    return keras.saving.load_model(folder / "model.keras")


def test_a_stream_and_its_validation_are_keras_own(tmp_path):
    data = {**STREAM, "validation": {"build": f"{NETS}:stream_held"}}
    report = fit(write_card(tmp_path, data=data), tmp_path / "run")
    assert report["steps"] == 20 and report["choices"]["loop"] == "tfperf"
    keras.utils.set_random_seed(3)
    model = nets.build_linear()
    wanted = model.fit(nets.stream(), epochs=4, validation_data=nets.stream_held(), shuffle=False, verbose=0).history
    assert {*report["last"]} == {*wanted}
    for name, value in report["last"].items():
        np.testing.assert_allclose(value, wanted[name][-1], rtol=2e-6, err_msg=name)
    for one, other in zip(open_run(tmp_path / "run").get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


REST = [
    pytest.param(kind, marks=pytest.mark.slow) for kind in ("filtered", "plain", "cached", "stateless")
]  # shuffled is more


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["shuffled", *REST])
def test_a_stream_that_was_ended_resumes_to_the_same_bits(tmp_path, monkeypatch, kind):
    data = {**STREAM, "arguments": {"kind": kind}, "validation": {"build": f"{NETS}:stream_held"}}
    whole, _ = fit_twice(write_card(tmp_path, data=data), tmp_path, monkeypatch, 13)
    assert whole["not_bit_exact"] == [] and whole["epochs"] == 4


@pytest.mark.slow
def test_a_stream_without_an_end_needs_to_know_when_an_epoch_ends(tmp_path, monkeypatch):
    data = {**STREAM, "arguments": {"kind": "endless"}}
    said = run("fit", write_card(tmp_path, data=data), "-o", tmp_path / "no", code=2)
    assert "train.steps_per_epoch: missing; a tf.data.Dataset without an end needs it, or train.steps" in said
    card = write_card(tmp_path, data=data, train={"steps_per_epoch": 7})
    whole, _ = fit_twice(card, tmp_path, monkeypatch, 13)
    assert whole["steps"] == 28
    card = write_card(tmp_path, data=data, train={"epochs": None, "steps": 9})
    assert fit(card, tmp_path / "steps")["steps"] == 9


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_pydataset_resumes_to_the_same_bits(tmp_path, monkeypatch, workers):
    data = {"build": f"{NETS}:page", "arguments": {"workers": workers}}
    whole, _ = fit_twice(write_card(tmp_path, data=data), tmp_path, monkeypatch, 13)
    assert whole["steps"] == 20 and len(whole["not_bit_exact"]) == workers - 1


def test_a_pydataset_in_its_own_order_is_keras_own_whatever_makes_its_pages(tmp_path):
    keras.utils.set_random_seed(3)
    plain = nets.build_linear()
    plain.fit(nets.page(), epochs=4, shuffle=False, verbose=0)
    data = {"build": f"{NETS}:page", "arguments": {"workers": 2}, "shuffle": False}
    report = fit(write_card(tmp_path, data=data), tmp_path / "ordered")
    assert len(report["not_bit_exact"]) == 1, "two threads"
    for one, other in zip(open_run(tmp_path / "ordered").get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("data", ["load_classes", "page"])
def test_classes_weigh_as_in_keras(tmp_path, data):
    arguments = {"classes": True} if data == "page" else None
    source = {"build": f"{NETS}:{data}", "shuffle": False, **({"arguments": arguments} if arguments else {"batch": 16})}
    card = write_card(tmp_path, "build_classifier", source, {"class_weight": {0: 5.0, 2: 0.5}})
    report = fit(card, tmp_path / "run")
    keras.utils.set_random_seed(3)
    model, (inputs, targets) = nets.build_classifier(), nets.load_classes()
    wanted = model.fit(inputs, targets, 16, 4, shuffle=False, class_weight={0: 5.0, 2: 0.5}, verbose=0).history
    np.testing.assert_allclose(report["last"]["loss"], wanted["loss"][-1], rtol=2e-6)
    np.testing.assert_allclose(report["last"]["accuracy"], wanted["accuracy"][-1], rtol=2e-6)


@pytest.mark.parametrize(
    ("data", "train", "said"),
    [
        ({"batch": 8}, {}, "data.batch: got 8; must be left out for a tf.data.Dataset, whose elements are batches"),
        (
            {"validation": 0.2},
            {},
            "data.validation: a share cannot be taken of a tf.data.Dataset; name data of its own",
        ),
        ({"shuffle": True}, {}, "data.shuffle: must be left out for a tf.data.Dataset, which has its own order"),
        (
            {"arguments": {"kind": "single"}},
            {},
            "its elements are single samples; must be batches: end it by .batch(n)",
        ),
        ({"arguments": {"kind": "empty"}}, {}, "the dataset has no batch"),
        ({"build": f"{NETS}:load"}, {"steps_per_epoch": 3}, "train.steps_per_epoch: must be left out for samples in"),
        ({"build": f"{NETS}:load_two"}, {"class_weight": {0: 1.0}}, "train.class_weight: the data have sample weights"),
        ({"build": f"{NETS}:load_pair"}, {"class_weight": {0: 1.0}}, "train.class_weight: the data have 2 targets"),
        ({"build": f"{NETS}:draw"}, {"class_weight": {-1: 1.0}}, "got -1 as a key; a key is text"),
    ],
)
def test_what_does_not_fit_a_stream_is_told(tmp_path, data, train, said):
    output = run("fit", write_card(tmp_path, data={**STREAM, **data}, train=train), "-o", tmp_path / "run", code=2)
    assert said in output and not (tmp_path / "run" / "run.json").exists()


def test_what_cannot_be_had_again_is_named_before_the_first_step(tmp_path):
    card = write_card(tmp_path, data={**STREAM, "arguments": {"kind": "random"}})
    output = run("fit", card, "-o", tmp_path / "run")
    warned = "warning: not bit-exact after --resume: data: a state of its own in RandomStandardNormal"
    assert warned in output and output.index(warned) < output.index("training")


def test_keras_function_and_tfperfs_loop_take_the_same_steps_of_a_stream(tmp_path, monkeypatch):
    reports = {}
    for name in ("tfperf", "keras"):
        if name == "keras":
            monkeypatch.setattr("tfperf.workloads.keras.choices.compare_loops", take_keras)
        card = write_card(tmp_path, data={**STREAM, "arguments": {"kind": "filtered"}})
        reports[name] = fit(card, tmp_path / name)
        assert reports[name]["choices"]["loop"] == name
        iterations = int(open_run(tmp_path / name).optimizer.iterations.numpy())
        assert iterations == reports[name]["steps"], "the end of a pass is no step"
    assert reports["keras"]["last"] == pytest.approx(reports["tfperf"]["last"], rel=1e-6)


def take_keras(model, feed, recorded, compilation, state, before):
    assert len(recorded) == sum(1 for _ in nets.stream(kind="filtered")) > 1
    return feed.make_keras_loop(model, xla=False), "asked for"


@pytest.mark.slow
def test_an_epoch_that_ends_with_a_checkpoint_keeps_its_figures(tmp_path, monkeypatch):
    train = {"steps_per_call": 4, "checkpoint_every": 4}
    card = write_card(tmp_path, data={**STREAM, "arguments": {"kind": "filtered"}}, train=train)
    batches = sum(1 for _ in nets.stream(kind="filtered"))
    card.write_text(card.read_text().replace("steps_per_call: 4", f"steps_per_call: {batches}").replace(
        "checkpoint_every: 4", f"checkpoint_every: {batches}"))  # fmt: skip
    whole, resumed = fit_twice(card, tmp_path, monkeypatch, batches)
    assert resumed["resumed_from_steps"] == [batches] and whole["epochs"] == 4
    with h5py.File(tmp_path / "whole" / "results.h5") as one, h5py.File(tmp_path / "run" / "results.h5") as other:
        assert one["history/loss"][()].tolist() == other["history/loss"][()].tolist() and len(one["history/loss"]) == 4


def test_validation_by_some_batches_of_a_shuffled_stream_is_named(tmp_path):
    held = {**STREAM, "arguments": {"kind": "endless"}, "steps": 2}
    report = fit(write_card(tmp_path, data={"batch": 16, "validation": held}), tmp_path / "run")
    said = "data.validation: which of its batches validate, since each pass has another order"
    assert report["not_bit_exact"] == [said] and "val_loss" in report["last"]


def test_a_pydataset_that_draws_is_named(tmp_path):
    data = {"build": f"{NETS}:page", "arguments": {"drawing": True}}
    report = fit(write_card(tmp_path, data=data), tmp_path / "run")
    assert report["not_bit_exact"][0].startswith("data: what Drawing.__getitem__ draws: it gave two different batches")
    said = run("fit", write_card(tmp_path, data={"build": f"{NETS}:page", "arguments": {"broken": True}}), "-o",
               tmp_path / "broken", code=2)  # fmt: skip
    assert "ValueError: page 3 is missing" in said and "nets.py, line " in said
