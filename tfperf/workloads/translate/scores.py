"""How good translations are: BLEU and chrF, and a translation word by word to compare with."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tfperf.arrays import Int64Array
from tfperf.workloads.translate.pairs import Pairs
from tfperf.workloads.translate.vocabulary import import_extra

WORD = re.compile(r"\w+|[^\w\s]")
ROUNDS = 10  # of expectation and maximisation
MOST_PAIRS = 50_000  # that are counted: some hundred words each take 100 MB


def compute_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """BLEU of a corpus (0 to 100), one reference a sentence.

    Sources: Papineni et al. 2002; Post 2018, "A call for clarity in reporting BLEU scores", as sacrebleu has it.
    """
    return _compute_score(_make_metrics()["bleu"], hypotheses, references)


def compute_chrf(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """F score of a corpus (0 to 100) on n-grams of characters, one reference a sentence. Source: Popović 2015."""
    return _compute_score(_make_metrics()["chrf"], hypotheses, references)


def list_signatures() -> dict[str, str]:
    """How sacrebleu computes each score, with its version, by name: bleu, chrf."""
    metrics = _make_metrics()
    for metric in metrics.values():
        _compute_score(metric, ["a"], ["a"])  # the number of references is part of it
    return {name: str(metric.get_signature()) for name, metric in metrics.items()}


def _make_metrics() -> dict[str, Any]:
    library = import_extra("sacrebleu")
    return {"bleu": library.BLEU(force=True), "chrf": library.CHRF()}  # force: no warning on blanks before full stops


def _compute_score(metric: Any, hypotheses: Sequence[str], references: Sequence[str]) -> float:
    if len(hypotheses) != len(references) or not references:
        raise ValueError(
            f"got {len(hypotheses)} hypotheses for {len(references)} references; must be as many, not none"
        )
    return float(metric.corpus_score(list(hypotheses), [list(references)]).score)


def translate_words(training: Pairs, sentences: Sequence[str]) -> list[str]:
    """Each word of the sentences replaced by its likeliest translation in the training pairs, unknown ones as they are.

    Source: Brown et al. 1993, "The mathematics of statistical machine translation", model 1 without the empty word.

    >>> training = Pairs(("a house", "a tree", "the house"), ("ein haus", "ein baum", "das haus"))
    >>> translate_words(training, ["the tree", "a bird"])
    ['das baum', 'ein bird']
    """
    source, target = (_number_words(side[:MOST_PAIRS]) for side in (training.source, training.target))
    likeliest = _fit_model_1(_find_cooccurrences(source.rows, target.rows, len(target.words)))
    names = list(target.words)
    best = {word: names[likeliest[i]] for word, i in source.words.items() if i in likeliest}
    return [" ".join(best.get(word, word) for word in WORD.findall(text)) for text in sentences]


class _NumberedTexts(NamedTuple):
    rows: list[Int64Array]  # of each sentence, the numbers of its words
    words: dict[str, int]


def _number_words(texts: Iterable[str]) -> _NumberedTexts:
    words: dict[str, int] = {}
    rows = [np.array([words.setdefault(w, len(words)) for w in WORD.findall(text)], np.int64) for text in texts]
    return _NumberedTexts(rows, words)


class _Cooccurrences(NamedTuple):
    """Each word of a source sentence beside each of its translation: M such meetings, P different ones."""

    source: Int64Array  # (P)
    target: Int64Array  # (P)
    which: Int64Array  # (M) which of the P
    place: Int64Array  # (M) the word of the translations, all counted through, that took part


def _find_cooccurrences(
    source: Sequence[Int64Array], target: Sequence[Int64Array], target_words: int
) -> _Cooccurrences:
    codes = [(s[:, None] * target_words + t).ravel() for s, t in zip(source, target, strict=True)]
    first = np.cumsum([0, *map(len, target)])
    place = [np.tile(np.arange(len(t)) + k, len(s)) for s, t, k in zip(source, target, first[:-1], strict=True)]
    different, which = np.unique(np.concatenate(codes), return_inverse=True)
    return _Cooccurrences(*np.divmod(different, target_words), which, np.concatenate(place))


def _fit_model_1(cooccurrences: _Cooccurrences) -> dict[int, int]:
    """The likeliest target word of each source word."""
    probability = np.ones(len(cooccurrences.source))
    for _ in range(ROUNDS):
        weight = probability[cooccurrences.which]
        weight /= np.bincount(cooccurrences.place, weight)[cooccurrences.place]
        expected = np.bincount(cooccurrences.which, weight)
        probability = expected / np.bincount(cooccurrences.source, expected)[cooccurrences.source]
    order = np.argsort(probability, kind="stable")  # the last of a source word stays
    return dict(zip(cooccurrences.source[order].tolist(), cooccurrences.target[order].tolist(), strict=True))
