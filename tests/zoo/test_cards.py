"""The shipped cards of tfperf.zoo: sound, with the arguments of the functions, and as good as plain methods."""

import importlib
import inspect
import json

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tfperf
from tests.runcard.cards import KERAS, ROOT, write
from tfperf.cli import main
from tfperf.runcard.data_sources import ModelSource, SampleSource, ValidationSource
from tfperf.runcard.dump import dump_card
from tfperf.sources.code import CodeReference
from tfperf.workloads.cards import load_card
from tfperf.workloads.keras.card import KerasCard
from tfperf.zoo import digits, tabular, text
from tfperf.zoo.inputs import reorder_samples
from tfperf.zoo.photos import find_photos
from tfperf.zoo.photos_folder import list_photos

# arguments of both model and data, which have to agree
SHARED = {"keras_text.yaml": {"words", "length"}, "tagger.yaml": {"words", "characters"}, "photos.yaml": {"size"}}


def test_there_is_a_card_of_each_model():
    texts = {path.stem: path.read_text() for path in (ROOT / "tfperf" / "zoo").glob("*.py")}
    modules = {name for name, text in texts.items() if "\ndef build_model(" in text}
    cards = {f"{'' if name in ('tagger', 'photos') else 'keras_'}{name}.yaml" for name in modules}
    assert len(modules) == 5 and {*KERAS} == cards


@pytest.mark.parametrize("name", KERAS)
def test_a_shipped_card_checks_and_survives_being_written(tmp_path, name):
    said = CliRunner().invoke(main, ["check", str(ROOT / "runcards" / name)])
    assert said.exit_code == 0 and "\nok\n" in said.output
    card = load_card(write(tmp_path, KERAS[name]))
    again = tmp_path / "again"
    again.mkdir()
    assert load_card(write(again, dump_card(card))) == card and card.title


@pytest.mark.parametrize("name", KERAS)
def test_what_a_card_gives_are_the_defaults_of_the_functions(tmp_path, name):
    card = load_card(write(tmp_path, KERAS[name]))
    assert isinstance(card, KerasCard)
    held = card.data.validation
    sources: list[ModelSource | SampleSource] = [card.model, card.data]
    for source in [*sources, *([held] if isinstance(held, ValidationSource) else [])]:
        assert source.build is not None
        reference = CodeReference.parse(source.build)
        function = getattr(importlib.import_module(reference.origin), reference.function)
        values = {key: one.default for key, one in inspect.signature(function).parameters.items()}
        given = {key: value for key, value in source.arguments.items() if key != "part"}
        assert given == {key: values[key] for key in given}
    shared = {*card.model.arguments} & {*card.data.arguments}
    assert all(card.model.arguments[key] == card.data.arguments[key] for key in shared)
    assert shared == SHARED.get(name, set())


def split(x, y, share=0.2):
    count = len(x) - round(share * len(x))
    return x[:count], y[:count], x[count:], y[count:]


def fit_card(folder, name, *more):
    """report.json."""
    done = CliRunner().invoke(main, ["fit", str(ROOT / "runcards" / name), "-o", str(folder), *more])
    assert done.exit_code == 0, done.output
    return json.loads((folder / "report.json").read_text())


@pytest.mark.slow
def test_the_table_is_fitted_as_well_as_by_linear_regression(tmp_path):
    x, y, held, wanted = split(*tabular.load_samples())
    plain = LinearRegression().fit(x, y).score(held, wanted)
    alone = ("--set", "replicas=null", "--set", "ensemble={}")
    found = fit_card(tmp_path / "one", "keras_tabular.yaml", *alone)["last"]
    assert 0.35 < plain < 0.45 and found["val_r2"] > plain - 0.03
    report = fit_card(tmp_path / "run", "keras_tabular.yaml")
    assert report["replicas"] == {"total": 50, "usable": 50, "failed": [], "by_status": report["replicas"]["by_status"]}
    mean = tfperf.load(tmp_path / "run").mean(held)
    assert r2_score(wanted, mean) > plain - 0.03
    assert report["calibration"]["rms_error"] < report["calibration"]["rms_error_of_one"]


@pytest.mark.slow
def test_digits_are_read(tmp_path):
    x, y, held, wanted = split(*digits.load_samples())
    plain = LogisticRegression(max_iter=5000).fit(x.reshape(len(x), -1), y).score(held.reshape(len(held), -1), wanted)
    assert fit_card(tmp_path / "run", "keras_digits.yaml")["last"]["val_accuracy"] > max(0.97, plain)


@pytest.mark.slow
def test_texts_are_told_apart_as_well_as_by_frequencies_of_words(tmp_path):
    x, y, held, wanted = split(*reversed(reorder_samples(*text._read_columns(text._find_pairs(None)))))
    plain = make_pipeline(TfidfVectorizer(), LogisticRegression(max_iter=2000)).fit(x, y).score(held, wanted)
    most = max(np.mean(wanted == label) for label in np.unique(y))
    assert fit_card(tmp_path / "run", "keras_text.yaml")["last"]["val_accuracy"] > max(plain - 0.02, 2 * most)


def read_colours(part):
    """Mean and deviation of each colour of the pictures (N, 6), and their classes (N)."""
    paths, labels = list_photos(find_photos(None, 4000), part)
    found = []
    for path in paths:
        with Image.open(path) as picture:
            pixels = np.asarray(picture.reduce(4), np.float64).reshape(-1, 3)
        found.append(np.concatenate([pixels.mean(0), pixels.std(0)]))
    return np.array(found), np.array(labels)


@pytest.mark.slow
def test_photographs_are_told_apart_better_than_by_their_colours(tmp_path):
    found = fit_card(tmp_path / "run", "photos.yaml")["last"]["val_accuracy"]  # makes the pictures, too
    (x, y), (held, wanted) = read_colours("train"), read_colours("held")
    for features in (3, 6):  # means alone, then both
        plain = make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000)).fit(x[:, :features], y)
        assert found > plain.score(held[:, :features], wanted) + (0.4 if features == 3 else 0.15)
    assert found > 0.93
