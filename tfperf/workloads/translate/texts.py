"""The sentence pairs of a translation as its training takes them. All is read before a run directory is touched."""

import gzip
import hashlib
import os
import zlib
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from tfperf.errors import PackError
from tfperf.results.files import make_folder, write_atomically
from tfperf.results.reading import open_regular
from tfperf.runcard.faults import Fault
from tfperf.runcard.places import make_unfit_error, refuse_inside
from tfperf.workloads.translate.card import TranslationCard
from tfperf.workloads.translate.corpus import (
    ROLES,
    EncodedCorpus,
    Texts,
    count_table_rows,
    encode,
    hash_files,
    read_corpus,
    synthesise,
)
from tfperf.workloads.translate.state import VOCABULARIES, VocabularyDigests
from tfperf.workloads.translate.vocabulary import Vocabulary, learn, read_vocabulary

SIDES = "source", "target"
MAX_HEADER = 1 << 20  # bytes of a table's first line


@dataclass(frozen=True)
class Sentences:
    """What a card's corpora hold; a synthetic one has neither texts nor vocabularies."""

    hashes: Mapping[str, str]  # sha256 by the key that names the file
    texts: Texts | None  # as `EncodedCorpus` has them
    vocabularies: Mapping[str, Vocabulary]  # by SIDES
    encoded: EncodedCorpus
    rows: int  # of both tables

    @property
    def piece_digests(self) -> VocabularyDigests:
        """Which pieces the vocabularies have."""
        return VocabularyDigests({
            side: hashlib.sha256(one.to_json().encode()).hexdigest() for side, one in self.vocabularies.items()
        })  # fmt: skip


def read_sentences(card: TranslationCard, output: Path | None = None, resumed: bool = False) -> Sentences:
    """Read, divide and encode the card's pairs; vocabularies are learned, or those of the run `output` if `resumed`.

    Raises: CardError for files inside the run directory and columns that a table does not have, PackError where files
    cannot be read or hold too little.
    """
    if faults := check_columns(card):
        raise make_unfit_error(card, faults)
    hashes = hash_files(card)
    if card.fixed_length is not None:
        return Sentences(hashes, None, {}, synthesise(card), count_table_rows(card))
    if output is not None:
        refuse_inside({key: _get_file(card, key) for key in hashes}, output)
    texts = read_corpus(card)
    known = _read(output) if resumed and output is not None else {}
    vocabularies = known or {side: learn(getattr(texts.training, side), card.data.vocabulary) for side in SIDES}
    encoded = encode(card, texts, vocabularies["source"], vocabularies["target"])
    rows = card.model.table or max(one.size for one in vocabularies.values())
    return Sentences(hashes, encoded.texts, vocabularies, encoded, rows)


def check_columns(card: TranslationCard) -> list[Fault]:
    """Columns that the card names and a table does not have. Tables that cannot be read are told when they are."""
    if card.fixed_length is not None:
        return []
    faults = []
    for role in ROLES:
        corpus = getattr(card.data, role)
        if corpus is not None and corpus.table is not None and (there := _read_columns(corpus.table)):
            faults += [
                Fault(f"data.{role}.columns.{i}", name, f"{corpus.table} has no such column", there)
                for i, name in enumerate(corpus.columns)
                if name not in there
            ]
    return faults


def _read_columns(table: Path) -> tuple[str, ...]:
    """Names in the first line of a table; none where it cannot be read."""
    try:
        with open_regular(table) as raw, gzip.open(raw) if table.suffix == ".gz" else nullcontext(raw) as file:
            line = file.readline(MAX_HEADER)
        return tuple(line.decode("utf-8-sig").rstrip("\r\n").split("\t"))
    except (OSError, EOFError, zlib.error, ValueError):
        return ()


def write_vocabularies(output: Path, vocabularies: Mapping[str, Vocabulary]) -> None:
    """Put them into the run directory. Raises: StorageError."""
    for side, vocabulary in vocabularies.items():
        path = _make_vocabulary_path(output, side)
        make_folder(path.parent)
        with write_atomically(path) as temporary:
            temporary.write_text(vocabulary.to_json(), encoding="utf-8")


def _read(output: Path) -> dict[str, Vocabulary]:
    """The vocabularies of a run; none where it was ended before they were written."""
    paths = {side: _make_vocabulary_path(output, side) for side in SIDES}
    if not all(os.path.lexists(path) for path in paths.values()):
        return {}
    try:
        return {side: read_vocabulary(path) for side, path in paths.items()}
    except PackError as error:
        raise PackError(f"{output / VOCABULARIES}: damaged: {error}; remove it, and it is learned again") from None


def _make_vocabulary_path(output: Path, side: str) -> Path:
    return output / VOCABULARIES / f"{side}.json"


def _get_file(card: TranslationCard, key: str) -> Path:
    """The file that a key names."""
    found: Any = reduce(getattr, key.split("."), card)
    return Path(found)
