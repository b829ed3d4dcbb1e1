"""A tokenizer as BERT's, trained on texts of one's own."""

from collections.abc import Sequence
from pathlib import Path

from tfperf.errors import UserError
from tfperf.results.files import write_atomically

VOCABULARY = 30_522
# number 0 is padding, as the encoder has it
PADDING, UNKNOWN, BEGIN, END, MASK = SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LEAST_OFTEN = 2  # times that a pair of pieces stands in the texts before it becomes one


def write_tokenizer(texts: Sequence[str], path: Path, vocabulary: int = VOCABULARY) -> int:
    """Train a tokenizer, write it as a tokenizer.json, and return how many tokens it knows.

    vocabulary: at most; few texts give fewer. Lower case, without accents, a token before and one behind each text.
    Raises: UserError without the tokenizers library; StorageError.

    Source: Schuster & Nakajima 2012, "Japanese and Korean voice search", for the pieces of words, as Devlin et al. 2019
    use them.
    """
    try:
        from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    except ImportError:
        raise UserError("tokenizers cannot be imported: pip install 'tfperf[predict]'") from None
    tokenizer = Tokenizer(models.WordPiece(unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary, min_frequency=LEAST_OFTEN, special_tokens=list(SPECIAL), show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer, length=len(texts))
    ends = [(one, tokenizer.token_to_id(one)) for one in (BEGIN, END)]
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{BEGIN} $A {END}", special_tokens=ends)
    with write_atomically(path) as temporary:
        temporary.write_text(tokenizer.to_str(), encoding="utf-8")
    return int(tokenizer.get_vocab_size())
