"""The test sentences translated with a training's best weights, and how good that is. Imports TensorFlow."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfperf.workloads.translate.card import Translation
from tfperf.workloads.translate.corpus import Part, Texts
from tfperf.workloads.translate.scores import bleu, chrf, signatures, word_by_word
from tfperf.workloads.translate.texts import Sentences
from tfperf.workloads.translate.translating import Ids, Search, Weights, translations
from tfperf.workloads.translate.translator import Translator
from tfperf.workloads.translate.vocabulary import Vocabulary


@dataclass(frozen=True)
class Translated:
    """Scores by the way of translating, each {bleu, chrf}; of a synthetic corpus, which has no text, none.

    correct_pieces: share of the references' pieces that the greedy search has at their places.
    """

    scores: dict[str, dict[str, float]]
    signatures: dict[str, str]
    samples: list[dict[str, str]]
    correct_pieces: float


def translate_test(
    card: Translation, model: Translator, weights: Weights, sentences: Sentences, between: Callable[[], None]
) -> Translated:
    """Translate the test part greedily and with the card's beam; `between` is called now and then."""
    part, length = sentences.encoded.test, card.decode.max_length
    beams = {"greedy": 1} | ({"beam": card.decode.beam} if card.decode.beam > 1 else {})
    ids = {
        way: translations(card, Search(model, beam, length), weights, part, between) for way, beam in beams.items()
    }  # fmt: skip
    correct = correct_pieces(ids["greedy"], part, length)
    if sentences.texts is None:
        return Translated({}, {}, [], correct)
    texts = _as_texts(ids, sentences.vocabularies["target"], sentences.texts)
    reference = sentences.texts.test.target
    scores = {way: {"bleu": bleu(found, reference), "chrf": chrf(found, reference)} for way, found in texts.items()}
    samples = _samples(card.decode.samples, sentences.texts, texts["beam" if "beam" in texts else "greedy"])
    return Translated(scores, signatures(), samples, correct)


def correct_pieces(found: Ids, part: Part, length: int) -> float:
    """Share of the references' pieces, of the first `length` of each, that the translations have at their places."""
    right = total = 0
    for ids, reference in zip(found, _rows(part), strict=True):
        counted = min(length, len(reference))
        right += int(np.count_nonzero(ids[:counted] == reference[:counted]))
        total += counted
    return right / total


def _rows(part: Part) -> list[NDArray[np.int32]]:
    """The pieces of each pair's target."""
    return np.split(part.target.flat, part.target.offsets[1:-1])


def _as_texts(ids: dict[str, Ids], vocabulary: Vocabulary, texts: Texts) -> dict[str, Sequence[str]]:
    """The translations by their way, those word by word among them."""
    decoded: dict[str, Any] = {way: vocabulary.decode(rows) for way, rows in ids.items()}
    return decoded | {"word_by_word": word_by_word(texts.training, texts.test.source)}


def _samples(count: int, texts: Texts, found: Sequence[str]) -> list[dict[str, str]]:
    """So many translations, evenly from the test part."""
    test = texts.test
    rows = np.unique(np.linspace(0, len(test) - 1, min(count, len(test))).round().astype(int)).tolist()
    return [{"source": test.source[i], "reference": test.target[i], "translation": found[i]} for i in rows]
