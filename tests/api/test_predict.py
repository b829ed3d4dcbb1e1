"""`tfperf.predict` with what a Python program has: models, arrays, texts and functions in memory."""

import glob
from pathlib import Path

import keras
import numpy as np
import pytest

import tfperf
from tests.workloads.predict.test_predict import make_files
from tfperf.errors import CardError, RunDirectoryError
from tfperf.workloads.cards import load_checked_card
from tfperf.workloads.predict.card import BatchSize, PredictCard
from tfperf.workloads.predict.given import name_model, name_source, write_predict_card

KEYS = {"queue.devices": ["cpu:0"]}


def build():
    keras.backend.clear_session()  # names are counted
    keras.utils.set_random_seed(3)
    inputs = keras.Input((4,))
    return keras.Model(inputs, keras.layers.Dense(2, name="score")(inputs))


def count_letters(columns):
    return {"counts": np.array([[one.count(letter) for letter in "abcd"] for one in columns["text"]], np.float32)}


def test_a_model_and_an_array_give_the_rows_of_the_model(tmp_path):
    model, data = build(), np.random.default_rng(1).normal(size=(100, 4)).astype(np.float32)
    found = tfperf.predict(model, data, tmp_path / "run", batch=16, keys=KEYS)
    np.testing.assert_allclose(found.read_rows(), model(data), rtol=1e-5, atol=1e-6)
    assert found.summary["records"] == 100 and found.summary["failed"] == 0 and found.path.name == "predictions.h5"
    assert len(found.list_rows()) == 1 and "records=100" in repr(found)
    with pytest.raises(RunDirectoryError, match="--resume goes on"):
        tfperf.predict(model, data, tmp_path / "run", batch=16, keys=KEYS)
    again = tfperf.predict(model, data, tmp_path / "run", batch=16, keys=KEYS, resume=True)
    np.testing.assert_array_equal(again.read_rows(), found.read_rows())


@pytest.mark.slow
def test_functions_and_texts_of_a_program(tmp_path):
    texts = ["abba", "dada", "", "bcd cba"] * 5
    found = tfperf.predict(build, texts, tmp_path / "run", preprocess=count_letters, batch=8, keys=KEYS)
    truth = build()(count_letters({"text": texts})["counts"])
    np.testing.assert_allclose(found.read_rows(), truth, rtol=1e-5, atol=1e-6)
    with pytest.raises(KeyError, match="rows"):
        found.read_rows("rows")


def test_a_card_and_its_folder(tmp_path):
    make_files(tmp_path)
    found = tfperf.predict(tmp_path / "card.yaml", tmp_path / "run", overrides=["output.dtype=float16"])
    assert found.read_rows().dtype == np.float16 and found.summary["is_finished"]
    with pytest.raises(CardError, match="batch: a card says that itself"):
        tfperf.predict(tmp_path / "card.yaml", tmp_path / "other", batch=3)


def test_the_same_model_has_the_same_file(tmp_path):
    first, again = (name_model(build(), tmp_path) for _ in range(2))
    other = build()
    other.set_weights([weights + 1 for weights in other.get_weights()])
    assert first == again != name_model(other, tmp_path)
    assert len(list(tmp_path.glob("*.keras"))) == 2 == len(list(tmp_path.iterdir()))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (["a\nb"], "line breaks"), (["a\r"], "line breaks"), (3, "got int; must be globs"),
        ([], "got list; must be globs"), ([__file__, "other"], r"test_predict.py'.*: names of files must be pathlib"),
        ([Path("a.txt"), "b.txt"], r"with 'b.txt': names of files must be pathlib.Path"),
        (np.array([[1, 2], [3]], object), r"an array of objects with \[1, 2\]; must be texts"),
        (np.array(["a", None], object), "an array of objects with None"), (np.array([b"\xff"]), "must be UTF-8"),
        (np.array([["a", "b"]]), "must have one axis"), (np.zeros(2, complex), "got an array of complex128"),
    ],
)  # fmt: skip
def test_other_records_are_refused(tmp_path, source, words):
    with pytest.raises(CardError, match=words):
        name_source(source, tmp_path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((3, np.zeros((2, 4)), "run"), "model: got int; must be a keras.Model"),
        ((build, np.zeros((2, 4))), "output: missing"),
        ((build, np.zeros((2, 4)), np.zeros(2)), "output: got ndarray"),
    ],
)
def test_other_arguments_are_refused(tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CardError, match=words):
        tfperf.predict(*arguments)


def test_files_of_several_formats_are_refused(tmp_path):
    with pytest.raises(CardError, match="files of lines, npy; must be of one format"):
        name_source([tmp_path / "a.npy", tmp_path / "b.txt"], tmp_path)
    assert name_source(["a.npy", "b.npy"], tmp_path)["npy"][1].endswith("/b.npy")
    assert name_source("data/*.parquet", tmp_path)["parquet"][0].endswith("/data/*.parquet")


def test_bytes_are_texts(tmp_path):
    for source in (np.array([b"a\xc3\xa4", b"b"]), np.array(["a\u00e4", "b"]), np.array(["a\u00e4", "b"], object)):
        [path] = name_source(source, tmp_path)["lines"]
        assert Path(path).read_text(encoding="utf-8") == "a\u00e4\nb\n"


def test_a_file_is_meant_whatever_signs_its_name_has(tmp_path):
    (tmp_path / "[x]").mkdir()
    (tmp_path / "[x]" / "a[1].txt").write_text("one\n")
    pattern = name_source(tmp_path / "[x]" / "a[1].txt", tmp_path)["lines"][0]
    assert glob.glob(pattern) == [str(tmp_path / "[x]" / "a[1].txt")]
    make_files(tmp_path / "[x]")
    card = load_checked_card(tmp_path / "[x]" / "card.yaml")
    assert isinstance(card, PredictCard) and glob.glob(card.source.patterns[0])


def test_numbers_of_numpy_are_numbers(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((2, 4)))
    path = write_predict_card(
        build, tmp_path / "a.npy", tmp_path / "run", None, (), None, np.int64(8), {"queue.window": np.int32(64)}
    )
    card = load_checked_card(path)
    assert isinstance(card, PredictCard)
    assert card.queue.batch == BatchSize(records=8) and card.queue.window == 64
