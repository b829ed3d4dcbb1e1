"""The sentences of a card as numbers of pieces: training, validation and test."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tfperf.arrays import BoolMask, Int32Array, Int64Array
from tfperf.data.keys import Purpose, make_generator
from tfperf.errors import PackError
from tfperf.results.reading import hash_file
from tfperf.workloads.translate.card import Corpus, TranslationCard
from tfperf.workloads.translate.pairs import Pairs, read_hdf5, read_lines, read_table, select_pairs, split_pairs
from tfperf.workloads.translate.vocabulary import SPECIAL, Vocabulary

ROLES = "training", "validation", "test"
# keys of report.json
LEFT_OUT = {"training": "left_out", "validation": "validation_left_out", "test": "test_left_out"}
FILES = "source", "target", "table", "hdf5"  # keys of a corpus that name files


@dataclass(frozen=True)
class Texts:
    """The sentence pairs of a card; none of the three is empty."""

    training: Pairs
    validation: Pairs
    test: Pairs


@dataclass(frozen=True)
class Ragged:
    """n sentences: pieces of sentence i are flat[offsets[i]:offsets[i + 1]], without START and END.

    >>> ragged = Ragged(np.array([7, 8, 9], np.int32), np.array([0, 2, 3]))
    >>> len(ragged), ragged.lengths.tolist()
    (2, [2, 1])
    """

    flat: Int32Array
    offsets: Int64Array  # (n + 1)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Int64Array:
        """Pieces of each sentence (n)."""
        return np.diff(self.offsets)


@dataclass(frozen=True)
class Split:
    """n sentences and their translations, as pieces."""

    source: Ragged
    target: Ragged

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True)
class EncodedCorpus:
    """The pieces of a card's pairs, and how many of each split were left out for their length."""

    training: Split
    validation: Split
    test: Split
    left_out: Mapping[str, int]  # by ROLES
    texts: Texts | None = None  # of the splits' pairs, but for the training's, which are all; None: there are none


def read_corpus(card: TranslationCard) -> Texts:
    """The pairs of a card that names some; shares of the training's where it names none to validate or test with.

    Raises: PackError for files that cannot be read, and where a share has no pairs.
    """
    data = card.data
    assert data.training is not None
    shares = [0.0 if data.validation else data.validation_share, 0.0 if data.test else data.test_share]
    every = _read(data.training)
    splits = split_pairs(every, *shares)
    texts = Texts(
        training=splits.training,
        validation=_read(data.validation) if data.validation else splits.validation,
        test=_read(data.test) if data.test else splits.test,
    )
    for role in ROLES:
        if not len(getattr(texts, role)):
            raise PackError(f"data.{role}: none of the {len(every)} pairs of data.training fell to it; must have some")
    return texts


def encode(card: TranslationCard, texts: Texts, source: Vocabulary, target: Vocabulary) -> EncodedCorpus:
    """The pieces of all pairs of data.max_length pieces or fewer on either side.

    Memory of a pass grows with the longest pair of a batch. Raises: PackError where all pairs of a split are longer.
    """
    splits: dict[str, Split] = {}
    kept: dict[str, Pairs] = {}
    left_out: dict[str, int] = {}
    for role in ROLES:
        pairs: Pairs = getattr(texts, role)
        every = _encode_pairs(pairs, source, target)
        short = (every.source.lengths <= card.data.max_length) & (every.target.lengths <= card.data.max_length)
        if not short.any():
            longest = f"data.max_length: got {card.data.max_length}"
            raise PackError(f"{longest}; all {len(every)} {role} pairs have more pieces")
        splits[role] = Split(_filter_ragged(every.source, short), _filter_ragged(every.target, short))
        kept[role] = select_pairs(pairs, np.flatnonzero(short).tolist())
        left_out[role] = len(pairs.too_long) + len(every) - len(splits[role])
    return EncodedCorpus(**splits, left_out=left_out, texts=Texts(**{**kept, "training": texts.training}))


def count_table_rows(card: TranslationCard) -> int:
    """Rows of the tables for a synthetic corpus, whose ids lie below."""
    return card.model.table or card.data.vocabulary


def synthesise(card: TranslationCard) -> EncodedCorpus:
    """data.pairs pairs of card.fixed_length pieces, of which the shares of the card validate and test.

    An id of rank r = 0, 1, ... in the table (from 4 on) is drawn about as often as 1 / (r + 1), as words are (Zipf's
    law). Its translation is the next id, that of the last the first: word for word, so that the loss can fall.
    """
    assert card.fixed_length is not None
    n, length, first = card.data.pairs, card.fixed_length, len(SPECIAL)
    words = count_table_rows(card) - first
    draws = make_generator(card.seed, 0, Purpose.TRUTH).random((n, length))
    ranks = np.minimum((words + 1.0) ** draws - 1, words - 1).astype(np.int32)
    both = ranks + first, (ranks + 1) % words + first
    validation = max(1, round(n * card.data.validation_share))
    test = validation + max(1, round(n * card.data.test_share))
    if test >= n:
        raise PackError(f"data.pairs: got {n}; must leave pairs to train on, beside validation and test")

    def select(start: int, stop: int) -> Split:
        return Split(*(_make_even(side[start:stop]) for side in both))

    return EncodedCorpus(select(test, n), select(0, validation), select(validation, test), dict.fromkeys(ROLES, 0))


def hash_files(card: TranslationCard) -> dict[str, str]:
    """The sha256 of each file of the card's corpora, by its key; empty for a synthetic one. Raises: PackError."""
    if card.fixed_length is not None:
        return {}
    return {key: _hash(path) for key, path in _list_files(card)}


def _list_files(card: TranslationCard) -> Iterator[tuple[str, Path]]:
    for role in ROLES:
        corpus = getattr(card.data, role)
        for name in FILES:
            path = getattr(corpus, name, None)
            if path is not None:
                yield f"data.{role}.{name}", path


def _hash(path: Path) -> str:
    try:
        return hash_file(path)
    except OSError as error:
        raise PackError(f"{path}: {error.strerror or error}") from None


def _read(corpus: Corpus) -> Pairs:
    if corpus.table is not None:
        return read_table(corpus.table, *corpus.columns)
    if corpus.hdf5 is not None:
        return read_hdf5(corpus.hdf5)
    assert corpus.source is not None and corpus.target is not None
    return read_lines(corpus.source, corpus.target)


def _encode_pairs(pairs: Pairs, source: Vocabulary, target: Vocabulary) -> Split:
    return Split(_make_ragged(source.encode(pairs.source)), _make_ragged(target.encode(pairs.target)))


def _make_ragged(rows: Sequence[Int32Array]) -> Ragged:
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return Ragged(np.concatenate([np.empty(0, np.int32), *rows]), offsets)


def _make_even(ids: Int32Array) -> Ragged:
    """Sentences of one length, from ids (n, length)."""
    return Ragged(ids.reshape(-1), np.arange(len(ids) + 1, dtype=np.int64) * ids.shape[1])


def _filter_ragged(side: Ragged, keep: BoolMask) -> Ragged:
    offsets = np.cumsum(np.concatenate([[0], side.lengths[keep]]))
    return Ragged(side.flat[np.repeat(keep, side.lengths)], offsets)
