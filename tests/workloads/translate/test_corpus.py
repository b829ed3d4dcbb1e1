"""The parts of a card's corpus, as pieces."""

import hashlib

import numpy as np
import pytest

from tests.runcard.cards import write
from tests.workloads.translate.cards import SHORT, TABLE
from tfperf.errors import PackError
from tfperf.workloads.cards import load_card
from tfperf.workloads.translate.corpus import ROLES, count_table_rows, encode, hash_files, read_corpus, synthesise
from tfperf.workloads.translate.pairs import read_table
from tfperf.workloads.translate.vocabulary import learn

SYNTHETIC = SHORT.replace(f"training: {{table: {TABLE}, columns: [english, german]}}", "fixed_length: 6")


def card_of(folder, *overrides, text=SHORT):
    folder.mkdir(exist_ok=True)
    return load_card(write(folder, text), overrides)


def lines(path, texts):
    path.write_text("".join(f"{text}\n" for text in texts))
    return path


def own(folder, training, extra=""):
    """A card on a corpus of these pairs, source and target."""
    for name, side in zip(("a", "b"), zip(*training, strict=True), strict=True):
        lines(folder / name, side)
    text = SHORT.replace(f"{{table: {TABLE}, columns: [english, german]}}", "{source: ../a, target: ../b}" + extra)
    return load_card(write(folder, text))


def rows(ragged):
    return np.split(ragged.flat, ragged.offsets[1:-1])


def test_shares_of_the_training_validate_and_test(tmp_path):
    texts = read_corpus(card_of(tmp_path))
    every = read_table(TABLE, "english", "german")
    assert sorted(pair for role in ROLES for pair in getattr(texts, role).source) == sorted(every.source)
    assert [round(len(getattr(texts, role)) / len(every), 2) for role in ROLES] == [0.9, 0.05, 0.05]


def test_what_is_given_is_taken_whole(tmp_path):
    pairs = [(f"a{i}", f"b{i}") for i in range(400)]
    lines(tmp_path / "c", ["one", "a1"])
    given = "\n  {}: {{source: ../c, target: ../c}}"
    validated = read_corpus(own(tmp_path, pairs, given.format("validation")))
    assert validated.validation.source == ("one", "a1")
    assert len(validated.training) + len(validated.test) == 400 and 5 < len(validated.test) < 45
    tested = read_corpus(own(tmp_path, pairs, given.format("test")))
    assert tested.test.source == ("one", "a1")
    assert len(tested.training) + len(tested.validation) == 400 and 5 < len(tested.validation) < 45
    both = read_corpus(own(tmp_path, pairs, given.format("validation") + given.format("test")))
    assert len(both.training) == 400


def test_a_share_without_pairs_is_an_error(tmp_path):
    with pytest.raises(PackError, match=r"data\.validation: none of the 2 pairs of data.training fell to it"):
        read_corpus(own(tmp_path, [("a", "b"), ("c", "d")]))


def test_pieces_of_all_three(tmp_path):
    card = card_of(tmp_path, "data.vocabulary=1000")
    texts = read_corpus(card)
    pieces = [learn(side, 1000) for side in (texts.training.source, texts.training.target)]
    encoded = encode(card, texts, *pieces)
    for role in ROLES[1:]:
        split, want = getattr(encoded, role), getattr(encoded.texts, role)
        for side, vocabulary in zip(("source", "target"), pieces, strict=True):
            ragged = getattr(split, side)
            assert ragged.flat.dtype == np.int32 and ragged.offsets.dtype == np.int64
            assert tuple(vocabulary.decode(rows(ragged))) == getattr(want, side)
            assert ragged.lengths.tolist() == [len(row) for row in rows(ragged)]


def test_pairs_that_are_too_long_are_left_out_and_counted(tmp_path):
    pairs = [("a b", "c d"), ("a b c d", "c"), ("a b c d e", "f"), ("a", "c d e f"), ("a b c", "d e f")]
    lines(tmp_path / "long", ["a b c d e", "b a", "c" * 10**5])
    lines(tmp_path / "longer", ["a b c d", "c a", "a b", "e", "a"])
    more = (
        "\n  validation: {source: ../long, target: ../long}\n  test: {source: ../longer, target: ../longer}"
        "\n  max_length: 3"
    )
    card = own(tmp_path, pairs, more)
    texts = read_corpus(card)
    letters = learn(["a b c d e f"], 300)  # with blanks, a letter is a piece
    encoded = encode(card, texts, letters, letters)
    assert letters.decode(rows(encoded.training.source)) == ["a b", "a b c"]
    assert letters.decode(rows(encoded.training.target)) == ["c d", "d e f"]
    assert encoded.left_out == {"training": 3, "validation": 2, "test": 1}
    assert encoded.texts is not None
    assert letters.decode(rows(encoded.validation.source)) == ["b a"] == list(encoded.texts.validation.source)
    assert letters.decode(rows(encoded.test.target)) == ["c a", "a b", "e", "a"] == list(encoded.texts.test.target)
    assert encoded.texts.training == texts.training
    lines(tmp_path / "longer", ["a b c d"])
    with pytest.raises(PackError, match=r"data\.max_length: got 3; all 1 test pairs have more pieces"):
        encode(card, read_corpus(card), letters, letters)
    shorter = own(tmp_path, [("a b c d", "a")], more)
    with pytest.raises(PackError, match=r"data\.max_length: got 3; all 1 training pairs have more pieces"):
        encode(shorter, read_corpus(shorter), letters, letters)


def test_pairs_of_endless_words_are_left_out_before_pieces_are_learned(tmp_path):
    pairs = [("a b", "c d"), ("a" * 10**6, "c"), ("a", "d")]
    lines(tmp_path / "short", ["a b"])
    given = "{source: ../short, target: ../short}"
    card = own(tmp_path, pairs, f"\n  validation: {given}\n  test: {given}")
    texts = read_corpus(card)
    pieces = [learn(side, 300) for side in (texts.training.source, texts.training.target)]
    assert encode(card, texts, *pieces).left_out == {"training": 1, "validation": 0, "test": 0}
    assert len(texts.training) == 2


def test_a_synthetic_corpus_is_translated_word_by_word(tmp_path):
    card = card_of(tmp_path, "data.pairs=500", "data.vocabulary=300", text=SYNTHETIC)
    encoded = synthesise(card)
    assert [len(getattr(encoded, role)) for role in ROLES] == [450, 25, 25] and set(encoded.left_out.values()) == {0}
    every = [getattr(encoded, role) for role in ROLES]
    source, target = (np.concatenate([getattr(split, side).flat for split in every]) for side in ("source", "target"))
    assert set(every[0].source.lengths) == {6} and len(source) == 500 * 6 and source.dtype == np.int32
    assert np.array_equal(target, np.where(source == 299, 4, source + 1))
    assert source.min() == 4 and 280 < source.max() < 300
    # the commonest of 296 ids is drawn in log 2 / log 297 of all cases: 12 %, with 0.6 % of standard deviation
    assert np.mean(source == 4) == pytest.approx(np.log(2) / np.log(297), abs=0.03)
    assert np.array_equal(synthesise(card).training.source.flat, encoded.training.source.flat)
    other = synthesise(card_of(tmp_path, "seed=1", "data.pairs=500", "data.vocabulary=300", text=SYNTHETIC))
    assert not np.array_equal(other.training.source.flat, encoded.training.source.flat)


def test_synthetic_ids_fill_the_table(tmp_path):
    card = card_of(tmp_path, "model.table=50000", "data.pairs=2000", text=SYNTHETIC)
    assert count_table_rows(card) == 50_000
    assert 45_000 < synthesise(card).training.source.flat.max() < 50_000
    assert count_table_rows(card_of(tmp_path, text=SYNTHETIC)) == 8000
    few = synthesise(card_of(tmp_path, "data.pairs=10", "data.validation_share=0.2", text=SYNTHETIC))
    assert [len(getattr(few, role)) for role in ROLES] == [7, 2, 1]
    with pytest.raises(PackError, match=r"data\.pairs: got 2; must leave pairs to train on"):
        synthesise(card_of(tmp_path, "data.pairs=2", text=SYNTHETIC))


def test_hashes_tell_changed_files(tmp_path):
    card = own(tmp_path, [("a", "b")], "\n  test: {source: ../a, target: ../b}")
    hashes = hash_files(card)
    want = hashlib.sha256(b"a\n").hexdigest()
    assert list(hashes) == [f"data.{role}.{side}" for role in ("training", "test") for side in ("source", "target")]
    assert hashes["data.training.source"] == hashes["data.test.source"] == want
    lines(tmp_path / "a", ["changed"])
    assert hash_files(card)["data.training.source"] != want
    (tmp_path / "a").unlink()
    with pytest.raises(PackError, match="a: No such file"):
        hash_files(card)
    assert list(hash_files(card_of(tmp_path / "x"))) == ["data.training.table"]
    assert hash_files(card_of(tmp_path / "y", text=SYNTHETIC)) == {}
