"""Sentences with the things that they name: read, split by document, turned into numbers, and scored."""

import csv
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from tfperf.arrays import Int32Array
from tfperf.errors import UserError
from tfperf.zoo.inputs import find_file

SENTENCES = Path("data", "docs_entities", "sentences.tsv")
COLUMNS = ("package", "document", "words")
ALLOWED = f"must be a tab-separated file in UTF-8 with columns {', '.join(COLUMNS)}"
OUTSIDE, BEGINS, GOES_ON = "O", "B-", "I-"
HELD_OUT = 5  # one document in so many is not trained on
FIRST_CHARACTER, LAST_CHARACTER = 32, 126  # those with numbers of their own, from 2 on; all others: 1
CHARACTERS = LAST_CHARACTER - FIRST_CHARACTER + 3  # numbers that one may have
UNKNOWN = 1  # number of a word or character that has none; 0 is padding
Part = Literal["train", "held", "all"]


class Entity(NamedTuple):
    """A thing that a sentence names: its label, its first word, and the one after its last."""

    label: str
    start: int
    end: int


@dataclass(frozen=True)
class Sentence:
    """Words, and for each O, or a label behind B- where a thing begins, I- where it goes on; document: where it is."""

    document: str
    words: Sequence[str]
    labels: Sequence[str]

    @property
    def is_held_out(self) -> bool:
        """Whether its document is one of those that are not trained on: a digest of its name decides."""
        return hashlib.sha256(self.document.encode()).digest()[0] % HELD_OUT == 0


class EntityScore(NamedTuple):
    """How many of the things that were found are right, how many of those that are there were found, and F1 of both."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class Numbering:
    """What the numbers of a model mean: words from 2 on, labels from 0 on; characters of a word that it looks at."""

    words: Sequence[str]
    labels: Sequence[str]
    characters: int

    def number_words(self, sentences: Sequence[Sequence[str]], length: int) -> dict[str, Int32Array]:
        """words (N, length) and characters (N, length, characters), 0 where there is none; what is longer is cut."""
        numbers = {word: number for number, word in enumerate(self.words, 2)}
        kinds = {word: kind for kind, word in enumerate(sorted({word for one in sentences for word in one}), 1)}
        spelling = np.zeros((len(kinds) + 1, self.characters), np.int32)
        known = np.zeros(len(kinds) + 1, np.int32)
        for word, kind in kinds.items():
            known[kind] = numbers.get(word.lower(), UNKNOWN)
            spelled = [_number_character(one) for one in word[: self.characters]]
            spelling[kind, : len(spelled)] = spelled
        places = _pad(([kinds[word] for word in one] for one in sentences), len(sentences), length)
        return {"words": known[places], "characters": spelling[places]}

    def number_labels(self, labels: Sequence[Sequence[str]], length: int) -> Int32Array:
        """(N, length), 0 where there is no word."""
        numbers = {label: number for number, label in enumerate(self.labels)}
        return _pad(([numbers[label] for label in one] for one in labels), len(labels), length)

    def name_labels(self, numbers: Int32Array, lengths: Sequence[int]) -> list[list[str]]:
        """Labels of the words of each sentence; numbers (N, L), lengths N."""
        return [[self.labels[number] for number in row[:n]] for row, n in zip(numbers, lengths, strict=True)]


def _pad(rows: Iterable[Sequence[int]], count: int, length: int) -> Int32Array:
    found = np.zeros((count, length), np.int32)
    for place, row in enumerate(rows):
        found[place, : min(len(row), length)] = row[:length]
    return found


def _number_character(character: str) -> int:
    code = ord(character)
    return code - FIRST_CHARACTER + 2 if FIRST_CHARACTER <= code <= LAST_CHARACTER else UNKNOWN


def read_sentences(path: str | None = None, part: Part = "all") -> list[Sentence]:
    """The sentences of a file, in its order; None: data/docs_entities/sentences.tsv of the repository.

    Raises: UserError for a file that is missing or no such table.
    """
    file = find_file(SENTENCES, path, "sentences", ALLOWED)
    found = list(_read_table(file))
    if not found:
        raise UserError(f"sentences: {file}: has no sentences; must have at least one")
    return [one for one in found if part == "all" or one.is_held_out == (part == "held")]


def make_numbering(sentences: Iterable[Sentence], words: int, characters: int) -> Numbering:
    """Of the `words` - 2 most frequent words of the sentences, in small letters, that occur twice at least."""
    counts: Counter[str] = Counter()
    labels = set[str]()
    for one in sentences:
        counts.update(word.lower() for word in one.words)
        labels |= {label[len(BEGINS) :] for label in one.labels if label != OUTSIDE}
    ordered = sorted(counts, key=lambda word: (-counts[word], word))
    both = [start + label for label in sorted(labels) for start in (BEGINS, GOES_ON)]
    return Numbering([word for word in ordered if counts[word] > 1][: words - 2], [OUTSIDE, *both], characters)


def find_entities(labels: Sequence[str]) -> list[Entity]:
    """The things that labels tell of; an I- that goes on nothing of its label begins one.

    >>> find_entities(["O", "B-CLASS", "I-CLASS", "I-MODULE"])
    [Entity(label='CLASS', start=1, end=3), Entity(label='MODULE', start=3, end=4)]
    """
    found: list[Entity] = []
    for place, label in enumerate(labels):
        name = label[len(BEGINS) :]
        if label.startswith(GOES_ON) and found and found[-1].end == place and found[-1].label == name:
            found[-1] = found[-1]._replace(end=place + 1)
        elif label != OUTSIDE:
            found.append(Entity(name, place, place + 1))
    return found


def score_entities(wanted: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> EntityScore:
    """Labels found against those wanted: an entity is right where its label, its begin and its end are.

    Source: Tjong Kim Sang & De Meulder 2003, "Introduction to the CoNLL-2003 shared task", section 2.4.

    >>> score_entities([["B-CLASS", "I-CLASS", "O"]], [["B-CLASS", "O", "B-CLASS"]])
    EntityScore(precision=0.0, recall=0.0, f1=0.0)
    """
    right = there = given = 0
    for one, other in zip(wanted, found, strict=True):
        truth, guess = {*find_entities(one)}, {*find_entities(other)}
        right, there, given = right + len(truth & guess), there + len(truth), given + len(guess)
    return EntityScore(right / max(given, 1), right / max(there, 1), 2 * right / max(there + given, 1))


def _read_table(path: Path) -> Iterator[Sentence]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            table = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            for row in table:
                package, document, words = (row[name] or "" for name in COLUMNS)
                if words.strip():
                    yield Sentence(f"{package}/{document}", *_read_words(words, f"{path}: line {table.line_num}"))
    except (OSError, UnicodeDecodeError, csv.Error, KeyError) as error:
        reason = f"no column {error}" if isinstance(error, KeyError) else str(error)
        raise UserError(f"sentences: {path}: cannot be read: {reason}; {ALLOWED}") from None


def _read_words(text: str, where: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Words and labels of `the Model|CLASS .|CLASS+ save|CLASS+ method`. Raises: UserError."""
    words, labels = list[str](), list[str]()
    for one in text.split():
        word, mark, label = one.partition("|")
        name, before = label.removesuffix("+"), labels[-1] if labels else OUTSIDE
        if mark and not name:
            raise UserError(f"sentences: {where}: {one}: has no label; must be a word, or WORD|LABEL, or WORD|LABEL+")
        if label.endswith("+") and before[len(BEGINS) :] != name:
            raise UserError(f"sentences: {where}: {one}: goes on nothing; must follow a word with label {name}")
        words.append(word)
        labels.append(OUTSIDE if not mark else (GOES_ON if label.endswith("+") else BEGINS) + name)
    return tuple(words), tuple(labels)
