"""The tagger: what it learns from, its loss, that it is saved whole, and that it finds more than a dictionary."""

import csv
import json
import re

import keras
import numpy as np
import pytest
from click.testing import CliRunner

from tests.runcard.cards import ROOT
from tests.zoo.dictionary import Dictionary
from tfperf.cli import main
from tfperf.errors import UserError
from tfperf.sources.samples import Samples
from tfperf.workloads.keras.feeding import make_feed
from tfperf.workloads.keras.inputs import keep_order
from tfperf.workloads.keras.state import ModelState
from tfperf.zoo.entities import find_entities, make_numbering, read_sentences, score_entities
from tfperf.zoo.tagger import build_model, load_samples, make_scores
from tfperf.zoo.tagger_command import label_text, read_model

SMALL = {"words": 30, "units": 3, "character_units": 2, "filters": 4, "recurrent_units": 3}
LINES = "package\tdocument\twords\n" + "".join(
    f"shop\t{document}.rst\t{words}\n" for document in "abcdefghijklmnopqrstuvwxyz" for words in (
        f"The Model|CLASS .|CLASS+ save|FUNCTION of {document} is here .", f"Set USE_{document}|SETTING to save it .",
        "It names nothing .",
    )
)  # fmt: skip

BOOK = "Some words.\n\nThe Model.save of\nit is here. Set USE_x to save it.\n"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "sentences.tsv"
    path.write_text(LINES, encoding="utf-8")
    return str(path)


@pytest.fixture
def model(table):
    keras.utils.set_random_seed(1)
    made = build_model(table, **SMALL)
    made.jit_compile = False  # XLA takes seconds to compile it
    return made


def test_arrays_have_the_words_of_their_part(table):
    for part in ("train", "held"):
        x, y = load_samples(table, part, words=30, characters=6, length=7)
        sentences = read_sentences(table, part)
        known = make_numbering(read_sentences(table, "train"), 30, 6)
        assert x["words"].shape == y.shape == (len(sentences), 7) and x["characters"].shape == (*y.shape, 6)
        for one, words, labels in zip(sentences, x["words"], y, strict=True):
            kept = one.words[:7]
            assert [known.labels[number] for number in labels[: len(kept)]] == [*one.labels[:7]]
            assert not words[len(kept) :].any() and not labels[len(kept) :].any()
            for word, number in zip(kept, words, strict=False):
                assert number == (known.words.index(word.lower()) + 2 if word.lower() in known.words else 1)


def test_batches_are_padded_to_their_longest(table):
    x, y = load_samples(table)
    rows = {(*words[words > 0], *labels[words > 0]) for words, labels in zip(x["words"], y, strict=True)}
    found = [batch for _ in range(2) for batch in load_samples(table, batch=4)]
    assert {len(labels) for _, labels in found} <= {4, len(y) % 4}
    for inputs, labels in found:
        words = inputs["words"].numpy()
        assert words[:, -1].any() and words.shape == labels.shape == inputs["characters"].shape[:2]
    seen = [(*w[w > 0], *one[w > 0]) for inputs, labels in found
            for w, one in zip(inputs["words"].numpy(), labels.numpy(), strict=True)]  # fmt: skip
    assert {*seen} == rows and len(seen) == 2 * len(y)


def test_the_loss_is_that_of_the_field_and_a_step_changes_all_weights(model, table):
    x, y = load_samples(table, length=8)
    emissions = model(x)
    wanted = -np.asarray(model.field.compute_log_likelihood(emissions, y, x["words"] != 0), np.float64)
    assert float(model.compute_loss(x, y, emissions)) == pytest.approx(wanted.mean(), rel=1e-5)
    weights = np.arange(len(y)) % 3
    assert float(model.compute_loss(x, y, emissions, weights)) == pytest.approx((weights * wanted).mean(), rel=1e-5)
    before = model.get_weights()
    loss = float(model.train_step((x, y))["loss"])
    assert wanted.mean() / 2 < loss < 2 * wanted.mean(), "dropout alone makes a difference"
    changed = [np.any(old != new) for old, new in zip(before, model.get_weights(), strict=True)]
    assert all(changed) and len(changed) > 10


def test_no_state_of_a_step_is_lost(model, table):
    samples = Samples(load_samples(table, length=8))
    state = ModelState(model, make_feed(samples, 4, None, keep_order, lambda *_: None))
    assert state.find_unkept_draws() == []


def decode(model, x):
    return np.asarray(model.predict_step((x,)))


def test_padding_changes_nothing(model, table):
    (short, labels), (long, padded) = (load_samples(table, length=length) for length in (10, 15))
    np.testing.assert_array_equal(padded[:, :10], labels)
    wanted = decode(model, short)
    np.testing.assert_array_equal(decode(model, long), np.pad(wanted, ((0, 0), (0, 5))))
    assert len(np.unique(wanted)) > 1
    losses = [float(model.compute_loss(x, y, model(x))) for x, y in ((short, labels), (long, padded))]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)  # sums of a few numbers in another order


def test_a_word_is_its_characters_whatever_the_padding(model):
    spelled = next(layer for layer in model.layers if type(layer).__name__ == "SpelledWords")
    wanted = spelled(np.array([[[5, 7, 9, 0]]]))
    kernel, bias = (np.asarray(weight, np.float64) for weight in spelled.convolution.weights)
    padded = np.pad(np.asarray(spelled.embedding.embeddings)[[5, 7, 9]], ((1, 1), (0, 0)))
    places = [np.einsum("wu,wuf->f", padded[n : n + 3], kernel) + bias for n in range(3)]
    np.testing.assert_allclose(wanted[0, 0], np.maximum(places, 0).max(0), rtol=1e-5, atol=1e-7)


def test_a_saved_model_is_whole(model, table, tmp_path):
    x, _ = load_samples(table, length=10)
    model.save(tmp_path / "best.keras")
    found = read_model(tmp_path)
    assert found.numbering == model.numbering and found.numbering.labels[0] == "O"
    wanted = decode(model, x)
    np.testing.assert_array_equal(decode(found, x), wanted)
    words = [one.words for one in read_sentences(table, "train")]
    named = model.numbering.name_labels(wanted, [len(one) for one in words])
    assert found.label_words(words) == named


@pytest.mark.slow
def test_xla_takes_the_same_step(table):
    x, y = load_samples(table, length=10)
    found = []
    for compiled in (False, True):
        keras.utils.set_random_seed(1)
        model = build_model(table, **SMALL, dropout=0.0)
        model.jit_compile = compiled
        model.train_on_batch(x, y)
        found.append(model.train_on_batch(x, y))
    assert found[0] == pytest.approx(found[1], rel=1e-4)


def test_another_model_is_refused(tmp_path):
    keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)]).save(tmp_path / "best.keras")
    with pytest.raises(UserError, match=r"best\.keras: is a Sequential; must be the folder"):
        read_model(tmp_path)


def test_scores_of_an_epoch_are_those_of_its_weights(model, table):
    callback = make_scores(table, batch=4)
    callback.set_model(model)
    logs = {"loss": 1.0}
    callback.on_epoch_end(0, logs)
    held = read_sentences(table, "held")
    score = score_entities([one.labels for one in held], model.label_words([one.words for one in held]))
    assert logs == {"loss": 1.0} | {f"entity_{name}": value for name, value in score._asdict().items()}


def write_card(folder, table):
    text = (ROOT / "runcards" / "tagger.yaml").read_text()
    for key, value in SMALL.items():
        text = "\n".join(
            f"{line.partition(':')[0]}: {value}" if line.strip().startswith(f"{key}:") else line
            for line in text.splitlines()
        )
    text = text.replace("words: 4000", "words: 30").replace("{part", f"{{sentences: {table}, part")
    text = text.replace("    words: 30\n", f"    words: 30\n    sentences: {table}\n", 1)
    text = text.replace(":make_scores", f":make_scores\n      arguments: {{sentences: {table}}}")
    path = folder / "card.yaml"
    path.write_text(text)
    return path


def label(run, folder, text, *options):
    """The rows of the table, and what was said."""
    (folder / "book.txt").write_text(text)
    out = folder / "out.tsv"
    done = CliRunner().invoke(label_text, [str(run), str(folder / "book.txt"), "-o", str(out), *options])
    assert done.exit_code == 0, done.output
    return [tuple(row.values()) for row in csv.DictReader(out.read_text().splitlines(), delimiter="\t")], done.output


def test_the_command_writes_what_the_model_finds(model, tmp_path):
    model.save(tmp_path / "best.keras")
    rows, said = label(tmp_path, tmp_path, BOOK, "--batch", "2")
    words = ["Some words .", "The Model . save of it is here .", "Set USE_x to save it ."]
    labels = [model.label_words([one.split()])[0] for one in words]
    assert len(rows) == sum(len(find_entities(one)) for one in labels) > 0
    assert re.search(r"samples \(sentences\) +3 *\n", said) and re.search(r"peak RAM +\d\.\d\d GB", said)
    assert "step 2/2" in said and "sentences/s" in said


@pytest.mark.slow
def test_a_card_is_fitted_and_its_run_labels_a_book(table, tmp_path):
    card, run = write_card(tmp_path, table), tmp_path / "run"
    options = ["--set", "train.epochs=20", "--set", "engine.xla=false", "--set", "train.steps_per_call=10",
               "--set", "data.batch=8", "--set", "model.arguments.learning_rate=0.05"]  # fmt: skip
    done = CliRunner().invoke(main, ["fit", str(card), "-o", str(run), "-q", *options])
    assert done.exit_code == 0, done.output
    report = json.loads((run / "report.json").read_text())
    assert "not bit-exact" not in (run / "run.log").read_text()
    assert {"loss", "val_loss", "entity_f1"} <= {*report["last"]} and report["last"]["entity_f1"] > 0.5
    rows, _ = label(run, tmp_path, BOOK)
    assert ("2", "USE_x", "SETTING", "34", "39") in rows


@pytest.mark.slow
def test_more_is_found_in_held_out_documents_than_by_a_dictionary(tmp_path):
    train, held = (read_sentences(None, part) for part in ("train", "held"))
    known = Dictionary(train)
    plain = score_entities([one.labels for one in held], [known.label_words(one.words) for one in held])
    done = CliRunner().invoke(main, ["fit", str(ROOT / "runcards" / "tagger.yaml"), "-o", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    model = read_model(tmp_path / "run")
    x, _ = load_samples(part="held")
    words = [one.words for one in held]
    found = [labels for start in range(0, len(words), 100) for labels in model.label_words(words[start : start + 100])]
    lengths = [len(one) for one in words]
    assert model.numbering.name_labels(model.predict(x, verbose=0), lengths) == found
    score = score_entities([one.labels for one in held], found)
    assert plain.f1 == pytest.approx(0.594, abs=0.001) and score.f1 > plain.f1 + 0.05, (plain, score)
