"""Folders that a prediction is not begun in, or is begun in again."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.workloads.predict.test_predict import RECORDS, make_files, run


@pytest.fixture
def card(tmp_path):
    make_files(tmp_path)
    return tmp_path / "card.yaml"


@pytest.mark.parametrize("flags", [(), ("--sample",)])
def test_files_of_the_user_are_not_replaced(card, flags):
    before = {path: path.read_bytes() for path in card.parent.iterdir()}
    said = run("predict", card, "-o", card.parent, "-q", *flags, code=2)
    assert "has card.yaml, model.keras, prepare.py, texts-10.txt, texts-9.txt, and no prediction" in said
    assert {path: path.read_bytes() for path in card.parent.iterdir() if path.name != "lock"} == before


def test_what_is_wrong_with_the_folder_is_said_before_files_are_read(card):
    (card.parent / "texts-9.txt").unlink()
    (card.parent / "texts-10.txt").unlink()
    assert "leave out --resume" in run("predict", card, "-o", card.parent / "run", "--resume", code=2)
    assert "has no prediction" in run("predict", card, "-o", card.parent / "run", "--verify", code=2)


@pytest.mark.slow
def test_a_first_try_that_gave_nothing_is_begun_anew(card):
    """With another model, and whether --resume is there or not."""
    output = card.parent / "run"
    code = card.parent / "prepare.py"
    good = code.read_text()
    code.write_text("def build():\n    return lambda columns: 1 / 0\n")
    assert "no record could be prepared" in run("predict", card, "-o", output, "-q", code=2)
    assert json.loads((output / "prediction.json").read_text())["outputs"] is None
    said = run("predict", card, "-o", output, "--verify", code=3)
    assert f"0 of {RECORDS} records" in said and "400 records are not written yet" in said
    code.write_text(good)
    assert f"{RECORDS} of {RECORDS} records" in run("predict", card, "-o", output, "-q")
    assert "--resume goes on with it" in run("predict", card, "-o", output, "-q", code=2)


@pytest.mark.parametrize(
    ("names", "told"),
    [("[a, a]", "names.1"), ("[ids]", "names.0: got 'ids'; must not be"), ("[a/b]", "must be a name without /")],
)
def test_names_of_outputs_are_checked_with_the_card(card, names, told):
    said = run("predict", card, "-o", card.parent / "run", "--set", f"output.names={names}", code=2)
    assert told in said and not (card.parent / "run").exists()


def test_a_tokenizer_of_several_columns_is_told_which(card):
    import h5py

    with h5py.File(card.parent / "two.h5", "w") as file:
        file["left"], file["right"] = np.array([b"a"]), np.array([b"b"])
    (card.parent / "tokenizer.json").write_text("{}")
    text = card.read_text().replace(
        'preprocess: {build: "prepare.py:build"}', "preprocess: {tokenizer: tokenizer.json}"
    )
    card.write_text(text.replace('lines: ["texts-*.txt"]', "hdf5: [two.h5]"))
    said = run("predict", card, "-o", card.parent / "run", code=2)
    assert "preprocess.text: got null; must name the column that is tokenized, one of: left, right" in said
    said = run("predict", card, "-o", card.parent / "run", "--set", "preprocess.text=middle", code=2)
    assert "preprocess.text: no column middle; there are: left, right" in said
    assert not Path(card.parent / "run").exists()
