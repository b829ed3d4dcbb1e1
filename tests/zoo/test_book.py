"""A book from text to table, by a model that labels capital words, and the command's answers to bad input."""

import csv

import pytest
from click.testing import CliRunner

from tfperf.errors import StorageError, UserError
from tfperf.zoo import book
from tfperf.zoo.book import cut_book, label_book, read_book, write_things
from tfperf.zoo.tagger_command import label_text

TEXT = "\n\nThe Model and Its\nManager came. They left.\n \n\n  no name here\n\nA Queue Set.\n"


class CapitalLabeller:
    """A word with a capital begins a THING, or goes on one that it follows."""

    def __init__(self):
        self.batches = []

    def label_words(self, sentences):
        self.batches.append(len(sentences))
        found = []
        for words in sentences:
            capital = [word[0].isupper() for word in words]
            found.append([
                "O" if not one else "I-THING" if n and capital[n - 1] else "B-THING" for n, one in enumerate(capital)
            ])  # fmt: skip
        return found


@pytest.mark.parametrize("batch", [1, 2, 100])
def test_things_have_their_places_in_the_paragraph(batch, tmp_path):
    model, shown = CapitalLabeller(), []
    sentences = list(cut_book(TEXT))
    found, seconds = label_book(model, sentences, batch, shown.append)
    assert [(one.paragraph, one.text, one.label) for one in found] == [
        (1, "The Model", "THING"), (1, "Its Manager", "THING"), (1, "They", "THING"), (3, "A Queue Set", "THING"),
    ]  # fmt: skip
    assert sum(model.batches) == len(sentences) == 4 and max(model.batches) <= batch
    assert shown == list(range(1, len(seconds) + 1)) and len(seconds) == -(-4 // batch)
    write_things(found, tmp_path / "out.tsv")
    with (tmp_path / "out.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    paragraphs = [one.strip() for one in TEXT.replace("\n \n", "\n\n").split("\n\n") if one.strip()]
    for row in rows:
        exact = paragraphs[int(row["paragraph"]) - 1][int(row["start"]) : int(row["end"])]
        assert " ".join(exact.split()) == row["text"] and row["label"] == "THING"
    assert len(rows) == 4


def test_what_has_no_end_is_labelled_in_pieces(monkeypatch):
    monkeypatch.setattr(book, "LONGEST", 3)
    pieces = list(cut_book("one two three four five six seven. End here"))
    assert [one.list_words() for one in pieces] == [
        ["one", "two", "three"], ["four", "five", "six"], ["seven", "."], ["End", "here"]
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read: No such file"), (b"", "has no text"), (b" \n\n", "has no text"),
        (b"ab\xff", "byte 2 is no UTF-8"),
    ],
)  # fmt: skip
def test_what_is_no_book_is_told(tmp_path, content, said):
    path = tmp_path / "book.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=said):
        read_book(path)


def test_a_mark_of_byte_order_is_no_text(tmp_path):
    path = tmp_path / "book.txt"
    path.write_bytes("\ufeffOne.\r\n\r\nTwo.".encode())
    assert read_book(path) == "One.\n\nTwo."


def test_a_table_that_cannot_be_written_leaves_nothing(tmp_path):
    with pytest.raises(StorageError, match="the folder does not exist"):
        write_things([], tmp_path / "none" / "out.tsv")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda run: None, "has no best.keras; must be the folder of a finished run of runcards/tagger.yaml"),
        (lambda run: (run / "best.keras").write_bytes(b"PK"), "best.keras: is damaged"),
    ],
)
def test_what_is_no_run_is_told(tmp_path, make, said):
    make(tmp_path)
    (tmp_path / "book.txt").write_text("A word.")
    done = CliRunner().invoke(
        label_text, [str(tmp_path), str(tmp_path / "book.txt"), "-o", str(tmp_path / "out.tsv"), "-q"]
    )
    assert isinstance(done.exception, UserError) and said in str(done.exception)
    assert not (tmp_path / "out.tsv").exists()


def test_the_text_is_not_written_over(tmp_path):
    path = tmp_path / "book.txt"
    path.write_text("A word.")
    done = CliRunner().invoke(label_text, [str(tmp_path), str(path), "-o", str(path)])
    assert isinstance(done.exception, UserError) and "must be another file" in str(done.exception)
    assert CliRunner().invoke(label_text, [str(tmp_path), str(path), "-o", "x", "--batch", "0"]).exit_code == 2
