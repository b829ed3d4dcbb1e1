"""A tokenizer as BERT's, trained on texts of one's own."""

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tfperf.errors import UserError
from tfperf.results.files import write_atomically

VOCABULARY = 30_522
# number 0 is padding, as the encoder has it
PADDING, UNKNOWN, BEGIN, END, MASK = SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WITHIN = "##"  # before a piece that does not begin a word
LEAST_OFTEN = 2  # times that a pair of pieces stands in the texts before it becomes one


def write_tokenizer(texts: Sequence[str], path: Path, vocabulary: int = VOCABULARY) -> int:
    """Train a tokenizer, write it as a tokenizer.json, and return how many tokens it knows.

    vocabulary: at most; few texts give fewer. Lower case, without accents, a token before and one behind each text.
    Raises: UserError without the tokenizers library; StorageError.

    Source: Schuster & Nakajima 2012, "Japanese and Korean voice search", for the pieces of words, as Devlin et al. 2019
    use them.
    """
    library = _import_library()
    trained = _make_tokenizer(library, {})
    # what stands within words is numbered here: the library would do it in another order each time
    letters = sorted({one for text in texts for one in trained.normalizer.normalize_str(text) if not one.isspace()})
    trainer = library.trainers.WordPieceTrainer(
        vocab_size=vocabulary, min_frequency=LEAST_OFTEN, show_progress=False,
        special_tokens=[*SPECIAL, *(f"{WITHIN}{one}" for one in letters)],
    )  # fmt: skip
    trained.train_from_iterator(texts, trainer, length=len(texts))
    found = _make_tokenizer(library, trained.get_vocab())
    found.add_special_tokens(list(SPECIAL))
    ends = [(one, found.token_to_id(one)) for one in (BEGIN, END)]
    found.post_processor = library.processors.TemplateProcessing(single=f"{BEGIN} $A {END}", special_tokens=ends)
    with write_atomically(path) as temporary:
        temporary.write_text(found.to_str(), encoding="utf-8")
    return int(found.get_vocab_size())


def _import_library() -> Any:
    """Raises: UserError."""
    try:
        return importlib.import_module("tokenizers")
    except ImportError:
        raise UserError("tokenizers cannot be imported: pip install 'tfperf[predict]'") from None


def _make_tokenizer(library: Any, numbers: Mapping[str, int]) -> Any:
    """One that cuts words as BERT's does. numbers: of its tokens."""
    made = library.Tokenizer(library.models.WordPiece(dict(numbers), unk_token=UNKNOWN))
    made.normalizer = library.normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
    made.decoder = library.decoders.WordPiece()
    return made
