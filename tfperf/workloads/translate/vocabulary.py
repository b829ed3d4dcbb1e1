"""Sentences as numbers of pieces, learned from text by byte pair encoding, and back.

Source: Sennrich, Haddow & Birch 2016, "Neural machine translation of rare words with subword units", on the bytes of
UTF-8: each sentence can be written, whatever its characters, so no piece stands for unknown ones.
"""

import importlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfperf.arrays import Int32Array
from tfperf.errors import PackError, UserError
from tfperf.results.reading import open_regular, parse_json

PAD, START, END, UNKNOWN = range(4)
# with a blank, which is written otherwise inside pieces: no text has them
SPECIAL = (" pad", " start", " end", " unknown")
MOST_BYTES = 10**9  # of a file: a million pieces take some 100 MB
SMALLEST = len(SPECIAL) + 256  # pieces: each byte is one


def import_extra(package: str) -> Any:
    """A package that only translations need; UserError with the command that installs it where it is missing."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise UserError(f"{package} cannot be imported ({error}): pip install tfperf[translate]") from None


def _import_tokenizers() -> Any:
    """The tokenizers library, in one thread unless the user's environment says otherwise: forks are then safe."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    return import_extra("tokenizers")


class Vocabulary:
    """The pieces of one language; `learn` makes one, `from_json` reads one."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    @property
    def size(self) -> int:
        """Number of pieces, the four special ones included; ids lie below."""
        return int(self._tokenizer.get_vocab_size())

    def encode(self, sentences: Sequence[str]) -> list[Int32Array]:
        """The ids of each sentence's pieces, without START and END."""
        encodings = self._tokenizer.encode_batch_fast(list(sentences), add_special_tokens=False)
        return [np.array(one.ids, np.int32) for one in encodings]

    def decode(self, rows: Iterable[Sequence[int] | Int32Array]) -> list[str]:
        """The sentence of each row of ids, which ends before END; special ids, and those that are none, are left out.

        What `encode` returned comes back as it was, blanks included; bytes that are no UTF-8 are shown as U+FFFD.

        >>> words = learn(["low lower lowest"], size=SMALLEST + 2)
        >>> words.decode(words.encode(["a lower one"]))
        ['a lower one']
        """
        texts = self._tokenizer.decode_batch([self._select_pieces(row) for row in rows], skip_special_tokens=False)
        return [text.removeprefix(" ") for text in texts]

    def _select_pieces(self, row: Sequence[int] | Int32Array) -> list[int]:
        ids = np.asarray(row, np.int64)
        ids = ids[: np.argmax(ids == END)] if END in ids else ids
        kept: list[int] = ids[ids > UNKNOWN].tolist()
        return kept

    def to_json(self) -> str:
        """The vocabulary as the tokenizers library writes it."""
        return str(self._tokenizer.to_str())

    @classmethod
    def from_json(cls, text: str) -> "Vocabulary":
        """The vocabulary that `to_json` wrote. Raises: PackError for any other text."""
        library = _import_tokenizers()
        try:
            pieces = _pop_pieces(parse_json(text))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise PackError(f"vocabulary: cannot be read: {error!s:.500}") from None
        # the library would go through every number below the highest
        if sorted(pieces.values()) != list(range(len(pieces))) or len(pieces) < SMALLEST:
            raise PackError(f"vocabulary: numbers of pieces must be 0, 1, ... without gaps, {SMALLEST} or more")
        if [pieces.get(piece) for piece in SPECIAL] != list(range(len(SPECIAL))):
            raise PackError(f"vocabulary: its first pieces must be {', '.join(map(repr, SPECIAL))}")
        return cls(_load(library, text, pieces))


def _load(library: Any, text: str, pieces: Mapping[str, int]) -> Any:
    """The tokenizer of a JSON text that numbers its pieces so. Raises: PackError where `learn` would make another."""
    try:
        tokenizer = library.Tokenizer.from_str(text)
    except Exception as error:  # the library raises no other type
        raise PackError(f"vocabulary: cannot be read: {error!s:.500}") from None
    found, plain = parse_json(tokenizer.to_str()), parse_json(_remove_commands(_make_untrained().to_str()))
    same = _pop_pieces(found) == pieces
    _pop_pieces(plain)
    # anything else, a limit on lengths or lower case, would change sentences
    if not same or found != plain:
        raise PackError("vocabulary: cuts sentences otherwise than those that tfperf learns")
    return tokenizer


def read_vocabulary(path: Path) -> Vocabulary:
    """The vocabulary in a file. Raises: PackError where it is damaged."""
    try:
        with open_regular(path, MOST_BYTES, links=False) as file:
            return Vocabulary.from_json(file.read().decode("utf-8"))
    except (OSError, ValueError) as error:
        raise PackError(f"vocabulary: cannot be read: {error}") from None


def _pop_pieces(tree: dict[str, Any]) -> dict[str, int]:
    """Take what is learned, pieces and how they merge, out of a tokenizer's JSON; the numbers of the pieces."""
    pieces = dict(tree["model"].pop("vocab"))
    del tree["model"]["merges"]
    if not all(type(number) is int for number in pieces.values()):
        raise ValueError("numbers of pieces must be whole")
    return pieces


def _make_untrained() -> Any:
    """A tokenizer that has not learned a piece."""
    library = _import_tokenizers()
    byte_level = library.pre_tokenizers.ByteLevel
    tokenizer = library.Tokenizer(library.models.BPE(unk_token=SPECIAL[UNKNOWN]))
    tokenizer.normalizer = library.normalizers.Prepend(" ")  # a word has the same pieces wherever it stands
    tokenizer.pre_tokenizer = byte_level(add_prefix_space=False)
    tokenizer.decoder = library.decoders.ByteLevel()
    return tokenizer


def learn(sentences: Iterable[str], size: int) -> Vocabulary:
    """A vocabulary of at most `size` (SMALLEST or more) pieces; the same sentences always give the same one."""
    if size < SMALLEST:
        raise ValueError(f"size: got {size}; must be at least {SMALLEST}, for the bytes")
    library, tokenizer = _import_tokenizers(), _make_untrained()
    trainer = library.trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(SPECIAL),
        initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(sentences, trainer)
    return Vocabulary.from_json(_remove_commands(tokenizer.to_str()))


def _remove_commands(text: str) -> str:
    """A tokenizer's JSON in which the special pieces are never looked for in sentences."""
    return json.dumps({**json.loads(text), "added_tokens": []}, ensure_ascii=False)
