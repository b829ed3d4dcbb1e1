"""The shipped prediction: it says which command makes its texts, and runs once they are there."""

import inspect
import json
import shlex

import h5py
import numpy as np
import pytest
from click.testing import CliRunner

from tests.runcard.cards import PREDICTIONS, ROOT
from tfperf.cli import main
from tfperf.runcard.dump import dump_card
from tfperf.workloads.cards import load_card
from tfperf.workloads.predict.card import PredictCard
from tfperf.zoo.encoder import build_encoder
from tfperf.zoo.passages_command import make_passages

NAME = "embed.yaml"
COUNT = 150
COMMAND = "python -m tfperf.zoo.passages runs/passages"


def run(*words, code=0):
    found = CliRunner().invoke(main, list(map(str, words)))
    assert found.exit_code == code, found.output
    return found.output


@pytest.fixture
def card(tmp_path):
    """The card in a clone of its own, in which nothing was made yet."""
    path = tmp_path / "runcards" / NAME
    path.parent.mkdir()
    path.write_text(PREDICTIONS[NAME])
    return path


@pytest.fixture
def made(card, monkeypatch):
    """The card after the command that it names, with fewer passages."""
    pytest.importorskip("tokenizers")
    monkeypatch.chdir(card.parents[1])
    lines = [line for line in PREDICTIONS[NAME].splitlines() if "made_by:" in line]
    python, option, module, *words = shlex.split(lines[0].partition("made_by:")[2])
    assert (python, option, module) == ("python", "-m", "tfperf.zoo.passages")
    done = CliRunner().invoke(make_passages, [*words, "--count", str(COUNT), "-q"])
    assert done.exit_code == 0, done.output
    return card


def test_there_is_one():
    assert list(PREDICTIONS) == [NAME]
    assert f"#   {COMMAND}\n" in PREDICTIONS[NAME] and (ROOT / "runcards" / NAME).is_file()


def test_without_texts_the_command_that_makes_them_is_told(card):
    for verb in (["check", card], ["predict", card, "-o", card.parent / "run"]):
        said = run(*verb, code=2)
        assert f"no such file; `{COMMAND}` makes it" in said and "preprocess.tokenizer: got" in said
    assert not (card.parent / "run").exists()


def test_with_a_tokenizer_alone_it_is_told_as_well(made):
    (made.parents[1] / "runs" / "passages" / "passages.txt").unlink()
    for verb in (["check", made], ["predict", made, "-o", made.parent / "run"]):
        assert f"source.lines.0: {made.parent}/../runs/passages/passages.txt: no such file; `{COMMAND}`" in run(
            *verb, code=2
        ).replace("\n", "")


def test_the_card_is_right_and_has_the_defaults_of_the_function(made):
    said = run("check", made)
    assert f"{COUNT} in 1 lines files: text" in said and "tfperf.zoo.encoder:build_encoder" in said
    values = {key: one.default for key, one in inspect.signature(build_encoder).parameters.items()}
    card = load_card(made)
    assert isinstance(card, PredictCard) and card.preprocess is not None and card.title
    assert card.model.arguments == values and card.preprocess.most_tokens == values["positions"]
    again = made.with_name("again.yaml")
    again.write_text(dump_card(card))
    assert load_card(again) == card


@pytest.mark.slow
def test_every_passage_gets_its_row(made, tmp_path):
    from tokenizers import Tokenizer

    sizes = {"layers": 1, "width": 24, "heads": 3, "inner": 32}
    sets = [word for key, value in sizes.items() for word in ("--set", f"model.arguments.{key}={value}")]
    run("predict", made, "-o", tmp_path / "run", "-q", *sets, "--set", "queue.batch={tokens: 1000}")
    with h5py.File(tmp_path / "run" / "embeddings.h5") as file:
        rows, status = file["embedding"][:], file["status"][:]
    assert rows.shape == (COUNT, 24) and np.all(status == 1)
    model = build_encoder(**sizes)
    folder = made.parents[1] / "runs" / "passages"
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(512)
    for number, text in enumerate((folder / "passages.txt").read_text().splitlines()[:30]):
        wanted = np.asarray(model(np.array([tokenizer.encode(text).ids])))[0]
        np.testing.assert_allclose(rows[number], wanted, rtol=0, atol=1e-5)
    assert json.loads((tmp_path / "run" / "report.json").read_text())["failed"] == 0
