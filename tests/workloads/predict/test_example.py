"""The card that `tfperf init` writes for a prediction: right for a model and records of the user's own."""

import keras
import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from tfperf.cli import main


def run(*words, code=0):
    found = CliRunner().invoke(main, list(map(str, words)))
    assert found.exit_code == code, found.output
    return found.output


def make_model(folder):
    inputs = keras.Input((2,), name="x")
    keras.Model(inputs, keras.layers.Dense(1)(inputs)).save(folder / "model.keras")


def test_the_example_card_passes_the_check_for_a_model_and_a_parquet_file(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    make_model(tmp_path)
    parquet.write_table(pa.table({"text": ["one", "two", "three"]}), tmp_path / "records.parquet")
    run("init", "--workload", "predict", tmp_path / "card.yaml")
    said = run("check", tmp_path / "card.yaml")
    assert "3 in 1 parquet files: text" in said and "model.keras" in said
    text = (tmp_path / "card.yaml").read_text()
    assert "# preprocess:" in text and not {"profile", "sweep", "memory"} & {*yaml.safe_load(text)}
    # the comment is a part of a card, too
    (tmp_path / "tokenizer.json").write_text("{}")
    begin = text.index("# preprocess:")
    end = text.index("\n\n", begin)
    shown = text[begin:end].replace("\n# ", "\n").removeprefix("# ")
    (tmp_path / "card.yaml").write_text(text[:begin] + shown + text[end:])
    assert "preprocess" in yaml.safe_load((tmp_path / "card.yaml").read_text())
    run("check", tmp_path / "card.yaml")


def test_what_is_not_there_yet_is_told(tmp_path):
    run("init", "--workload", "predict", tmp_path / "card.yaml")
    said = run("check", tmp_path / "card.yaml", code=2)
    assert "model.file: got 'model.keras'; no such file" in said and "source.parquet.0" in said


@pytest.mark.parametrize(
    ("name", "form"), [("r.npy", "npy"), ("r.txt", "lines"), ("r.h5", "hdf5"), ("r.hdf5", "hdf5"), ("r.x", "parquet")]
)
def test_the_name_of_the_data_says_their_format(tmp_path, name, form):
    run("init", "--workload", "predict", tmp_path / "card.yaml", "--data", name)
    source = yaml.safe_load((tmp_path / "card.yaml").read_text())["source"]
    assert source[form] == [name] and sum(source[one] is not None for one in ("npy", "lines", "hdf5", "parquet")) == 1


def test_data_that_are_there_are_named_from_the_card_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_model(tmp_path)
    np.save("rows.npy", np.zeros((4, 2), np.float32))
    run("init", "--workload", "predict", "card.yaml", "--data", "rows.npy")
    assert "4 in 1 npy files: values" in run("check", "card.yaml")
