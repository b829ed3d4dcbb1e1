"""Scores of translations, and the translation word by word."""

import sys

import numpy as np
import pytest
import sacrebleu

from tests.workloads.translate.test_pairs import SHIPPED
from tfperf.errors import UserError
from tfperf.workloads.translate.pairs import Pairs, read_table, split_pairs
from tfperf.workloads.translate.scores import compute_bleu, compute_chrf, list_signatures, translate_words

REFERENCES = ["The cat sat on the mat.", "There is a dog in the garden today ."]
HYPOTHESES = ["The cat sat on a mat.", "There is a dog in the garden ."]


def test_scores_are_those_of_sacrebleu():
    assert compute_bleu(REFERENCES, REFERENCES) == pytest.approx(100) == compute_chrf(REFERENCES, REFERENCES)
    assert compute_bleu(HYPOTHESES, REFERENCES) == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert compute_chrf(HYPOTHESES, REFERENCES) == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert 40 < compute_bleu(HYPOTHESES, REFERENCES) < 90 > compute_chrf(HYPOTHESES, REFERENCES)
    assert compute_bleu(["nothing of it"], ["The cat sat on the mat."]) == 0


def test_bleu_by_hand():
    # 4 of 5 words, 3 of 4 pairs, 2 of 3 triples, 1 of 2 fours; as long as the reference
    assert compute_bleu(["a b c d x"], ["a b c d e"]) == pytest.approx(100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25)


def test_signatures_say_how():
    want = f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
    assert list_signatures()["bleu"] == want
    assert list_signatures()["chrf"].startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no")


@pytest.mark.parametrize("score", [compute_bleu, compute_chrf])
def test_translations_and_references_are_as_many(score):
    with pytest.raises(ValueError, match="got 1 hypotheses for 2 references; must be as many"):
        score(["a"], ["a", "b"])
    with pytest.raises(ValueError, match="got 0 hypotheses"):
        score([], [])


def test_a_missing_library_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(UserError, match=r"sacrebleu cannot be imported .*: pip install tfperf\[translate\]"):
        compute_bleu(["a"], ["a"])


def test_words_are_told_apart_by_the_company_they_keep():
    # "the" is in every sentence, "house" and "book" with it: what both have in common is the article's
    training = Pairs(("the house", "the book", "a book"), ("das Haus", "das Buch", "ein Buch"))
    assert translate_words(training, ["the book", "a house, the cat", ""]) == ["das Buch", "ein Haus , das cat", ""]


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
    source_lines, target_lines = (tuple(" ".join(row) for row in side) for side in (source, target))
    training = Pairs(source_lines, target_lines)
    pairs = list(zip(source.tolist(), target.tolist(), strict=True))
    want = by_loops(pairs, 10)
    assert want != by_loops(pairs, 1)
    assert translate_words(training, list(want)) == list(want.values())


def test_unseen_sentences_share_words_with_their_translation():
    parts = split_pairs(read_table(SHIPPED, "english", "german"), 0.05, 0.05)
    got = compute_bleu(translate_words(parts.training, parts.validation.source), parts.validation.target)
    assert got > compute_bleu(parts.validation.source, parts.validation.target) + 2
