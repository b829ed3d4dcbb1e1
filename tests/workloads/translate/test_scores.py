"""Scores of translations, and the translation word by word."""

import sys

import numpy as np
import pytest
import sacrebleu

from tests.workloads.translate.test_pairs import SHIPPED
from tfperf.errors import UserError
from tfperf.workloads.translate.pairs import Pairs, divide, read_table
from tfperf.workloads.translate.scores import bleu, chrf, signatures, word_by_word

REFERENCES = ["The cat sat on the mat.", "There is a dog in the garden today ."]
HYPOTHESES = ["The cat sat on a mat.", "There is a dog in the garden ."]


def test_scores_are_those_of_sacrebleu():
    assert bleu(REFERENCES, REFERENCES) == pytest.approx(100) == chrf(REFERENCES, REFERENCES)
    assert bleu(HYPOTHESES, REFERENCES) == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert chrf(HYPOTHESES, REFERENCES) == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert 40 < bleu(HYPOTHESES, REFERENCES) < 90 > chrf(HYPOTHESES, REFERENCES)
    assert bleu(["nothing of it"], ["The cat sat on the mat."]) == 0


def test_bleu_by_hand():
    # 4 of 5 words, 3 of 4 pairs, 2 of 3 triples, 1 of 2 fours; as long as the reference
    assert bleu(["a b c d x"], ["a b c d e"]) == pytest.approx(100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25)


def test_signatures_say_how():
    want = f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
    assert signatures()["bleu"] == want
    assert signatures()["chrf"].startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no")


@pytest.mark.parametrize("score", [bleu, chrf])
def test_translations_and_references_are_as_many(score):
    with pytest.raises(ValueError, match="got 1 hypotheses for 2 references; must be as many"):
        score(["a"], ["a", "b"])
    with pytest.raises(ValueError, match="got 0 hypotheses"):
        score([], [])


def test_a_missing_library_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(UserError, match=r"sacrebleu cannot be imported .*: pip install tfperf\[translate\]"):
        bleu(["a"], ["a"])


def test_words_are_told_apart_by_the_company_they_keep():
    # "the" is in every sentence, "house" and "book" with it: what both have in common is the article's
    training = Pairs(("the house", "the book", "a book"), ("das Haus", "das Buch", "ein Buch"))
    assert word_by_word(training, ["the book", "a house, the cat", ""]) == ["das Buch", "ein Haus , das cat", ""]


def by_loops(pairs, rounds):
    """The likeliest target word of each source word."""
    met = {(s, t) for source, target in pairs for s in source for t in target}
    table = dict.fromkeys(met, 1.0)
    for _ in range(rounds):
        count = dict.fromkeys(met, 0.0)
        for source, target in pairs:
            for t in target:
                for s in source:
                    count[s, t] += table[s, t] / sum(table[other, t] for other in source)
        total = {s: sum(value for (other, _), value in count.items() if other == s) for s, _ in met}
        table = {(s, t): count[s, t] / total[s] for s, t in met}
    return {s: max((t for other, t in met if other == s), key=lambda t: table[s, t]) for s, _ in met}


def test_model_1_by_loops():
    rng = np.random.default_rng(16)
    # a word of rank r is frequent as 1 / r, its translation the same with a capital, in nine cases of ten
    words = np.array(list("abcdefghijkl"))
    draws = np.floor(13 ** rng.random((40, 5))).astype(int) - 1
    odd = np.where(rng.random(draws.shape) < 0.1, rng.permuted(draws, axis=1), draws)
    source, target = words[draws], np.char.upper(words[(odd + (rng.random(draws.shape) < 0.1)) % 12])
    training = Pairs(*(tuple(" ".join(row) for row in side) for side in (source, target)))
    pairs = list(zip(source.tolist(), target.tolist(), strict=True))
    want = by_loops(pairs, 10)
    assert want != by_loops(pairs, 1)
    assert word_by_word(training, list(want)) == list(want.values())


def test_unseen_sentences_share_words_with_their_translation():
    parts = divide(read_table(SHIPPED, "english", "german"), 0.05, 0.05)
    got = bleu(word_by_word(parts.training, parts.validation.source), parts.validation.target)
    assert got > bleu(parts.validation.source, parts.validation.target) + 2
