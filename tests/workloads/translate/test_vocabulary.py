"""Pieces of sentences, and sentences of pieces."""

import hashlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workloads.translate.test_pairs import SHIPPED
from tfperf.errors import PackError, UserError
from tfperf.workloads.translate.pairs import read_table
from tfperf.workloads.translate.vocabulary import (
    END,
    PAD,
    SMALLEST,
    SPECIAL,
    START,
    UNKNOWN,
    Vocabulary,
    learn,
    read_vocabulary,
)

LEARN = f"""
import hashlib
from pathlib import Path
from tfperf.workloads.translate.pairs import read_table
from tfperf.workloads.translate.vocabulary import learn
german = read_table(Path({str(SHIPPED)!r}), "english", "german").target
print(hashlib.sha256(learn(german, 2000).to_json().encode()).hexdigest())
"""


@pytest.fixture(scope="module")
def german():
    return read_table(SHIPPED, "english", "german").target


@pytest.fixture(scope="module")
def vocabulary(german):
    return learn(german, 2000)


def test_sentences_come_back_as_they_were(vocabulary, german):
    assert vocabulary.size == 2000
    rows = vocabulary.encode(german)
    assert vocabulary.decode(rows) == list(german)
    assert all(row.dtype == np.int32 and row.min() > UNKNOWN and row.max() < 2000 for row in rows)
    assert vocabulary.encode([]) == []


@given(st.text(st.characters(codec="utf-8"), max_size=20))
def test_so_does_any_text(vocabulary, text):
    assert vocabulary.decode(vocabulary.encode([text])) == [text]


@pytest.mark.parametrize("text", [*SPECIAL, "<pad>", "a pad start end unknown", "  two  blanks ", "▁Ġ", "日本"])
def test_no_text_is_taken_for_a_special_piece(vocabulary, text):
    (row,) = vocabulary.encode([text])
    assert row.min() > UNKNOWN and vocabulary.decode([row]) == [text]


def test_pieces_are_longer_where_there_are_more(vocabulary, german):
    few = learn(german, 400)
    assert few.size == 400
    assert sum(map(len, few.encode(german))) > 1.5 * sum(map(len, vocabulary.encode(german)))
    # the commonest words are a piece each, wherever they stand
    assert [len(row) for row in vocabulary.encode(["der", "und", "werden"])] == [1, 1, 1]
    assert vocabulary.encode(["der und der"])[0][[0, 2]].tolist() == [vocabulary.encode(["der"])[0][0]] * 2


def test_a_sentence_ends_before_end(vocabulary):
    (row,) = vocabulary.encode(["Ein Hund läuft."])
    rows = [[START, *row, END, *row, PAD], [PAD, *row, UNKNOWN, 10**6, -1], [END, *row], []]
    assert vocabulary.decode(rows) == ["Ein Hund läuft.", "Ein Hund läuft.", "", ""]


def test_a_vocabulary_survives_being_written(vocabulary, german):
    again = Vocabulary.from_json(vocabulary.to_json())
    assert again.to_json() == vocabulary.to_json()
    assert all(np.array_equal(a, b) for a, b in zip(again.encode(german), vocabulary.encode(german), strict=True))


@pytest.mark.parametrize("text", ["", "{}", "[1]", "no JSON"])
def test_another_text_is_refused(text):
    with pytest.raises(PackError, match="vocabulary: cannot be read"):
        Vocabulary.from_json(text)


def test_a_vocabulary_with_other_special_pieces_is_refused(vocabulary):
    with pytest.raises(PackError, match="its first pieces must be ' pad', ' start'"):
        Vocabulary.from_json(vocabulary.to_json().replace('" pad":0', '" PAD":0'))


def test_every_process_learns_the_same(vocabulary):
    want = hashlib.sha256(vocabulary.to_json().encode()).hexdigest()
    for threads in ({"TOKENIZERS_PARALLELISM": "false"}, {"TOKENIZERS_PARALLELISM": "true", "RAYON_NUM_THREADS": "4"}):
        got = subprocess.run(
            [sys.executable, "-c", LEARN], env={**os.environ, **threads}, capture_output=True, text=True, check=True
        )
        assert got.stdout.strip() == want, threads


def test_the_bytes_need_their_room():
    assert learn(["a"], SMALLEST).size == SMALLEST
    with pytest.raises(ValueError, match=f"size: got {SMALLEST - 1}; must be at least {SMALLEST}"):
        learn(["a"], SMALLEST - 1)


def test_a_missing_library_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(UserError, match=r"tokenizers cannot be imported .*: pip install tfperf\[translate\]"):
        learn(["a"], 300)
    with pytest.raises(UserError, match="pip install") as caught:
        Vocabulary.from_json("{}")
    assert not isinstance(caught.value, PackError)


def edited(vocabulary, change):
    """Its JSON with a change."""
    tree = json.loads(vocabulary.to_json())
    change(tree)
    return json.dumps(tree)


HOSTILE = {
    "gap": lambda tree: tree["model"]["vocab"].update({"zz": 4_000_000_000}),
    "number twice": lambda tree: tree["model"]["vocab"].update({"zz": 300}),
    "padding": lambda tree: tree.update(padding={
        "strategy": {"Fixed": 10**9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
        "pad_token": "x",
    }),
    "truncation": lambda tree: tree.update(truncation={
        "direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 5,
    }),
    "lower case": lambda tree: tree.update(normalizer={"type": "Lowercase"}),
    "chance": lambda tree: tree["model"].update(dropout=0.5),
    "no pieces": lambda tree: tree["model"].update(vocab={}, merges=[]),
    "few pieces": lambda tree: tree["model"].update(
        vocab={piece: i for piece, i in tree["model"]["vocab"].items() if i < 100}, merges=[]
    ),
    "types": lambda tree: tree.update(model=[1]),
    "half numbers": lambda tree: tree["model"]["vocab"].update({"z": 1.5}),
    "no merges": lambda tree: tree["model"].pop("merges"), "another merge": lambda tree: tree["model"].update(merges=1),
}  # fmt: skip


@pytest.mark.parametrize("what", HOSTILE)
def test_a_vocabulary_that_would_change_sentences_is_refused(vocabulary, what):
    with pytest.raises(PackError, match="vocabulary: "):
        Vocabulary.from_json(edited(vocabulary, HOSTILE[what]))


def test_a_file_that_is_no_vocabulary_is_refused(vocabulary, tmp_path):
    path = tmp_path / "source.json"
    path.write_text(vocabulary.to_json(), encoding="utf-8")
    assert read_vocabulary(path).size == vocabulary.size
    for content in (b"[" * 10**6, b"\xff", b"", b"{}"):
        path.write_bytes(content)
        with pytest.raises(PackError, match="vocabulary: cannot be read"):
            read_vocabulary(path)
    for plant in (os.mkfifo, lambda p: p.symlink_to("/dev/zero"), lambda p: p.mkdir()):
        path.unlink(missing_ok=True)
        plant(path)
        with pytest.raises(PackError, match="vocabulary: cannot be read"):
            read_vocabulary(path)
