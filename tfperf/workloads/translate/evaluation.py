"""The test sentences translated with a training's best weights, and how good that is. Imports TensorFlow."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfperf.arrays import Int32Array
from tfperf.workloads.translate.batch_translator import BatchTranslator, TranslatorWeights, translate_split
from tfperf.workloads.translate.card import TranslationCard
from tfperf.workloads.translate.corpus import Split, Texts
from tfperf.workloads.translate.scores import compute_bleu, compute_chrf, list_signatures, translate_words
from tfperf.workloads.translate.texts import Sentences
from tfperf.workloads.translate.translator import Translator
from tfperf.workloads.translate.vocabulary import Vocabulary


@dataclass(frozen=True)
class Evaluation:
    """Scores by the way of translating, each {bleu, chrf}; of a synthetic corpus, which has no text, none.

    correct_pieces: share of the references' pieces that the greedy search has at their places.
    """

    scores: dict[str, dict[str, float]]
    signatures: dict[str, str]
    samples: list[dict[str, str]]
    correct_pieces: float


def translate_test(
    card: TranslationCard,
    model: Translator,
    weights: TranslatorWeights,
    sentences: Sentences,
    before_batch: Callable[[], None],
) -> Evaluation:
    """Translate the test split greedily and with the card's beam; `before_batch` is called now and then."""
    split, length = sentences.encoded.test, card.decode.max_length
    beams = {"greedy": 1} | ({"beam": card.decode.beam} if card.decode.beam > 1 else {})
    translators = {way: BatchTranslator(model, beam, length) for way, beam in beams.items()}
    ids = {way: translate_split(card, one, weights, split, before_batch) for way, one in translators.items()}
    correct = compute_correct_pieces(ids["greedy"], split, length)
    if sentences.texts is None:
        return Evaluation({}, {}, [], correct)
    texts = _decode_texts(ids, sentences.vocabularies["target"], sentences.texts)
    reference = sentences.texts.test.target
    scores = {way: {"bleu": compute_bleu(t, reference), "chrf": compute_chrf(t, reference)} for way, t in texts.items()}
    samples = _select_samples(card.decode.samples, sentences.texts, texts["beam" if "beam" in texts else "greedy"])
    return Evaluation(scores, list_signatures(), samples, correct)


def compute_correct_pieces(found: list[Int32Array], split: Split, length: int) -> float:
    """Share of the references' pieces, of the first `length` of each, that the translations have at their places."""
    right = total = 0
    for ids, reference in zip(found, _split_targets(split), strict=True):
        compared = min(length, len(reference))
        right += int(np.count_nonzero(ids[:compared] == reference[:compared]))
        total += compared
    return right / total


def _split_targets(split: Split) -> list[Int32Array]:
    """The pieces of each pair's target."""
    return np.split(split.target.flat, split.target.offsets[1:-1])


def _decode_texts(ids: dict[str, list[Int32Array]], vocabulary: Vocabulary, texts: Texts) -> dict[str, Sequence[str]]:
    """The translations by their way, those word by word among them."""
    decoded: dict[str, Any] = {way: vocabulary.decode(rows) for way, rows in ids.items()}
    return decoded | {"word_by_word": translate_words(texts.training, texts.test.source)}


def _select_samples(count: int, texts: Texts, found: Sequence[str]) -> list[dict[str, str]]:
    """So many translations, evenly from the test split."""
    test = texts.test
    rows = np.unique(np.linspace(0, len(test) - 1, min(count, len(test))).round().astype(int)).tolist()
    return [{"source": test.source[i], "reference": test.target[i], "translation": found[i]} for i in rows]
