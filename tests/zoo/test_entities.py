"""Sentences, words and labels: read, numbered, scored, beside counting in the plainest way."""

import hashlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.zoo.dictionary import Dictionary
from tfperf.errors import UserError
from tfperf.zoo.entities import Numbering, find_entities, make_numbering, read_sentences, score_entities

TABLE = "package\tdocument\twords\n"
LINES = (
    "shop\ta.rst\tThe Model|CLASS .|CLASS+ save|CLASS+ and USE_TZ|SETTING .\n"
    "shop\tb.rst\tA Model|CLASS Manager|CLASS is the model .\n"
)


def write(folder, text):
    path = folder / "sentences.tsv"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_words_and_labels_are_read(tmp_path):
    first, second = read_sentences(write(tmp_path, TABLE + LINES))
    assert first.document == "shop/a.rst" and first.words == ("The", "Model", ".", "save", "and", "USE_TZ", ".")
    assert first.labels == ("O", "B-CLASS", "I-CLASS", "I-CLASS", "O", "B-SETTING", "O")
    assert second.labels == ("O", "B-CLASS", "B-CLASS", "O", "O", "O", "O")


def test_whole_documents_are_held_out():
    every, train, held = (read_sentences(None, part) for part in ("all", "train", "held"))
    assert len(every) == 10_022 == len(train) + len(held) and len(held) == 2252
    for part, wanted in ((train, False), (held, True)):
        for name in {one.document for one in part}:
            assert (int(hashlib.sha256(name.encode()).hexdigest()[:2], 16) % 5 == 0) == wanted
    texts = {one.words for one in train}
    assert not any(one.words in texts for one in held)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "no such file: .*; must be a tab-separated file in UTF-8 with columns package, document, words"),
        ("package\twords\na\tb\n", "cannot be read: no column 'document'"),
        ("package\tdocument\twords\na\tb\t\xff\n", "'utf-8' codec"),
        (TABLE, "has no sentences"),
        (TABLE + "a\tb\tc|\n", "line 2: c|: has no label"),
        (TABLE + "a\tb\tc d|X+\n", r"line 2: d\|X\+: goes on nothing"),
    ],
)  # fmt: skip
def test_what_is_no_table_is_told(tmp_path, text, said):
    path = tmp_path / "sentences.tsv"
    if text is not None:
        path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match=said):
        read_sentences(str(path))


def test_frequent_words_have_numbers(tmp_path):
    sentences = read_sentences(write(tmp_path, TABLE + LINES))
    known = make_numbering(sentences, 5, 4)
    counts = Counter(word.lower() for one in sentences for word in one.words)
    assert [counts[word] for word in known.words] == [3, 3, 2] and known.words == [".", "model", "the"]
    assert known.labels == ["O", "B-CLASS", "I-CLASS", "B-SETTING", "I-SETTING"]
    assert all(counts[word] > 1 for word in make_numbering(sentences, 100, 4).words)


def test_numbers_of_words_characters_and_labels():
    known = Numbering(["the", "model"], ["O", "B-X", "I-X"], 3)
    found = known.number_words([["The", "Models", "é~ !"], ["model"]], 2)
    np.testing.assert_array_equal(found["words"], [[2, 1], [3, 0]])
    spelled = [[ord(c) - 30 for c in word] for word in ("The", "Mod", "mod")]
    np.testing.assert_array_equal(found["characters"], [spelled[:2], [spelled[2], [0, 0, 0]]])
    np.testing.assert_array_equal(known.number_words([["é~ "]], 1)["characters"], [[[1, 96, 2]]])
    np.testing.assert_array_equal(known.number_labels([["O", "I-X", "B-X"], ["B-X"]], 2), [[0, 2], [1, 0]])
    assert known.name_labels(np.array([[0, 2], [1, 0]]), [2, 1]) == [["O", "I-X"], ["B-X"]]


def test_entities_are_those_of_a_plain_reading_of_chunks():
    draw = np.random.default_rng(1)
    for _ in range(200):
        labels = draw.choice(["O", "B-X", "I-X", "B-Y", "I-Y"], 8).tolist()
        found, open_label = [], None
        for place, label in enumerate([*labels, "O"]):
            name = label[2:] or None
            if open_label and (label[0] != "I" or name != open_label):
                found[-1][2], open_label = place, None
            if name and open_label is None:
                found.append([name, place, None])
                open_label = name
        assert [list(one) for one in find_entities(labels)] == found


def test_an_entity_is_right_where_label_and_both_ends_are():
    wanted = [["B-X", "I-X", "O", "B-Y"], ["O", "B-X", "O", "O"]]
    found = [["B-X", "I-X", "O", "B-X"], ["B-X", "I-X", "O", "B-Y"]]
    score = score_entities(wanted, found)
    assert score == pytest.approx((1 / 4, 1 / 3, 2 / 7))
    assert score_entities(wanted, wanted) == (1, 1, 1)
    assert score_entities([["O"]], [["O"]]) == (0, 0, 0)


def test_the_dictionary_knows_whole_names_that_are_labelled_more_often_than_not(tmp_path):
    lines = "".join(f"a\tb{i}\t{words}\n" for i, words in enumerate((
        "use Model|CLASS here", "use Model|CLASS .|CLASS+ save|CLASS+ here", "the Model here", "the save|FUNCTION here",
        "save it", "save it", "Model|CLASS is it",
    )))  # fmt: skip
    known = Dictionary(read_sentences(write(tmp_path, TABLE + lines)))
    assert {*known.names} == {("Model",), ("Model", ".", "save")}
    assert known.label_words(["a", "Model", ".", "save", "Model"]) == ["O", "B-CLASS", "I-CLASS", "I-CLASS", "B-CLASS"]
    assert known.label_words(["a", "Model", ".", "other", "save"]) == ["O"] * 5
    assert known.label_words(["a", "Model", "."]) == ["O", "B-CLASS", "O"]


def test_the_shipped_file_is_found_where_it_is():
    assert (
        read_sentences(str(Path(__file__).parents[2] / "data" / "docs_entities" / "sentences.tsv")) == read_sentences()
    )
