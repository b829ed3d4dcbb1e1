"""A text of the user's, paragraph by paragraph: cut into sentences, labelled in batches, written as a table."""

import csv
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from tfperf.errors import UserError
from tfperf.results.files import write_atomically
from tfperf.zoo.entities import find_entities
from tfperf.zoo.words import Span, split_paragraphs, split_sentences, split_words

COLUMNS = ("paragraph", "text", "label", "start", "end")
LONGEST = 100  # words that are labelled at once: what is longer, as a list without a full stop, is cut


class Labeller(Protocol):
    """A model."""

    def label_words(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """Labels of the words of each sentence of a batch."""


@dataclass(frozen=True)
class BookSentence:
    """number: of its paragraph, from 1 on; words: where they are in `paragraph`."""

    number: int
    paragraph: str
    words: Sequence[Span]

    def list_words(self) -> list[str]:
        """The words themselves."""
        return [self.paragraph[start:end] for start, end in self.words]


class NamedThing(NamedTuple):
    """A line of the table; start, end: characters of the paragraph, the end one is after the last."""

    paragraph: int
    text: str
    label: str
    start: int
    end: int


def read_book(path: Path) -> str:
    """The text of a file. Raises: UserError where it cannot be read or has none."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: byte {error.start} is no UTF-8; must be plain text in UTF-8") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}; must be plain text in UTF-8") from None
    if not text.strip():
        raise UserError(f"{path}: has no text; must have at least one word")
    return text


def cut_book(text: str) -> Iterator[BookSentence]:
    """All sentences that have words; of more than LONGEST the pieces."""
    for number, (start, end) in enumerate(split_paragraphs(text), 1):
        paragraph = text[start:end]
        for first, last in split_sentences(paragraph):
            words = [(first + a, first + b) for a, b in split_words(paragraph[first:last])]
            for place in range(0, len(words), LONGEST):
                yield BookSentence(number, paragraph, words[place : place + LONGEST])


def label_book(
    model: Labeller, book: Sequence[BookSentence], batch: int, show: Callable[[int], None]
) -> tuple[list[NamedThing], list[float]]:
    """What the sentences name, and the seconds of each batch. show: told how many batches are done."""
    found, seconds = list[NamedThing](), list[float]()
    for start in range(0, len(book), batch):
        before, part = time.perf_counter(), book[start : start + batch]
        for sentence, labels in zip(part, model.label_words([one.list_words() for one in part]), strict=True):
            found += list_things(sentence, labels)
        seconds.append(time.perf_counter() - before)
        show(len(seconds))
    return found, seconds


def list_things(sentence: BookSentence, labels: Sequence[str]) -> Iterator[NamedThing]:
    """What a sentence names; blanks and ends of lines within are one blank in its text.

    >>> sentence = BookSentence(7, "Call the.save", [(0, 4), (5, 8), (8, 9), (9, 13)])
    >>> list(list_things(sentence, ["O", "B-FUNCTION", "I-FUNCTION", "I-FUNCTION"]))
    [NamedThing(paragraph=7, text='the.save', label='FUNCTION', start=5, end=13)]
    """
    for label, first, last in find_entities(labels):
        start, end = sentence.words[first][0], sentence.words[last - 1][1]
        yield NamedThing(sentence.number, " ".join(sentence.paragraph[start:end].split()), label, start, end)


def write_things(things: Sequence[NamedThing], path: Path) -> None:
    """The table, tab-separated, with a line that names the columns. Raises: StorageError."""
    with write_atomically(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(things)
