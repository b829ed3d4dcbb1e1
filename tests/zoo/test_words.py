"""Plain text cut by place: nothing is lost, and the pieces are those that a reader would make."""

import numpy as np
import pytest

from tfperf.zoo.words import split_paragraphs, split_sentences, split_words


def cut(text, spans):
    return [text[start:end] for start, end in spans]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", []), ("\n \n", []), ("One.", ["One."]), ("\n\n  One.\nMore.  \n\n\n\tTwo.", ["One.\nMore.", "Two."]),
        ("One\n \t\nTwo\n", ["One", "Two"]), ("a\x0cb\n\nc", ["a\x0cb", "c"]),
    ],
)  # fmt: skip
def test_blank_lines_separate_paragraphs(text, wanted):
    assert cut(text, split_paragraphs(text)) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("One. Two!  Three?\nFour", ["One.", "Two!", "Three?", "Four"]),
        ("See e.g. Model, i.e. Dr. Who etc. All.", ["See e.g. Model, i.e. Dr. Who etc. All."]),
        ("It said “so.” (Then it left.) 3 came.", ["It said “so.”", "(Then it left.)", "3 came."]),
        ("Use a.b or version 2. 3 is wrong.", ["Use a.b or version 2.", "3 is wrong."]),
        ("no capital. then none.", ["no capital. then none."]),
        ("J. Smith came.", ["J. Smith came."]),
    ],
)
def test_sentences_end_where_a_new_one_begins(text, wanted):
    assert cut(text, split_sentences(text)) == wanted


def test_words_keep_hyphens_and_apostrophes_but_not_dots():
    text = "Don’t call django.db's re-use (x_1), Café!"
    wanted = ["Don’t", "call", "django", ".", "db", "'s", "re-use", "(", "x_1", ")", ",", "Café", "!"]
    assert cut(text, split_words(text)) == wanted


def test_all_but_blanks_is_in_the_pieces():
    draw = np.random.default_rng(1)
    for _ in range(300):
        text = "".join(draw.choice([*"aB1.?! '’-\n(\x85é"], 60))
        paragraphs = [text[start:end] for start, end in split_paragraphs(text)]
        sentences = [one[start:end] for one in paragraphs for start, end in split_sentences(one)]
        words = [one[start:end] for one in sentences for start, end in split_words(one)]
        for pieces in (paragraphs, sentences, words):
            assert "".join("".join(pieces).split()) == "".join(text.split())
