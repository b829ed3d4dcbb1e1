"""No file outside of `workloads/` names what only one workload knows, in code, text or comment."""

import re
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "tfperf"
FORMS = (
    # of parton densities
    r"pdfs?", r"partons?|partonic", r"protons?", r"flavou?rs?|flavou?red", r"quarks?", r"gluons?", r"hadrons?|hadronic",
    r"colliders?", r"luminosit(?:y|ies)", r"fk|fk ?tables?", r"chi ?2|chi squared?|χ²", r"positivity", r"integrability",
    r"t0", r"pseudo ?data", r"common ?data", r"closures?", r"postfit", r"sum ?rules?", r"arc ?lengths?", r"gev ?2?",
    r"lhapdf|nnpdf\w*|n3fit|pineappl|apfel\w*", r"data packs?", r"kinematics?", r"deep[ -]inelastic",
    # of translation
    r"translat(?:e|es|ed|ing|ions?|ors?)", r"sentences?", r"vocabular(?:y|ies)|vocabs?", r"languages?|\w*lingual",
    r"corpus|corpora", r"(?:de)?token(?:s|i[sz]\w*)?", r"sub ?words?|word ?pieces?|sentence ?pieces?",
    r"(?:sacre)?bleu|chrf", r"greedy|greedily", r"beams?", r"nmt|seq2seq", r"english|german|french",
)  # fmt: skip
WORDS = re.compile(rf"(?<![a-z0-9])(?:{'|'.join(FORMS)})(?![a-z0-9])")
INNOCENT = {
    ("measure/confidence.py", "chi2"): "scipy's distribution",
    ("measure/environment.py", "token"): "in the name of an environment variable",
    ("measure/hlo_text.py", "token"): "a type of XLA's",
    ("stores/fingerprint.py", "token"): "an attribute of operations that call Python",
    ("trace/python_functions.py", "token"): "an attribute of operations that call Python",
    ("zoo/digits.py", "translation"): "in the name of a layer of Keras'",
    ("zoo/text.py", "english"): "a column of the table that the model reads",
}
# whole files that have a use of their own for a word
OWN_WORDS = {
    "zoo/words.py": {"sentences", "sentence"}, "zoo/entities.py": {"sentences", "sentence"},
    "zoo/book.py": {"sentences", "sentence"}, "zoo/tagger.py": {"sentences"},
    "zoo/tagger_command.py": {"sentences", "sentence"}, "zoo/tagger_layers.py": {"sentences", "sentence"},
    "zoo/encoder.py": {"tokens", "tokenizer", "vocabulary", "sentence"},
    "zoo/encoder_layers.py": {"tokens", "token", "vocabulary", "sentence", "language"},
    "zoo/encoder_weights.py": {"token", "tokens", "tokenizer", "sentence"},
    "zoo/passages.py": {"tokenizer"}, "zoo/passages_command.py": {"tokens", "tokenizer", "vocabulary"},
    "zoo/passages_tokenizer.py": {
        "token", "tokens", "tokenizer", "tokenizers", "vocabulary", "vocab", "wordpiece", "word piece",
    },
}  # fmt: skip


def files():
    every = sorted(path for path in ROOT.rglob("*.py") if path.relative_to(ROOT).parts[0] != "workloads")
    assert len(every) > 100
    return every


def find(text):
    """Line number and word of each hit; names in camel case and with underscores are taken apart."""
    for number, line in enumerate(text.splitlines(), 1):
        apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", line).replace("_", " ").lower()
        yield from ((number, found) for one in {line.lower(), apart} for found in WORDS.findall(one))


def is_innocent(name, word):
    return (name, word) in INNOCENT or word in OWN_WORDS.get(name, ())


def test_no_room_names_what_one_workload_knows():
    hits = [
        f"{path.relative_to(ROOT.parent)}:{number}: {word}"
        for path in files()
        for number, word in dict.fromkeys(find(path.read_text(encoding="utf-8")))
        if not is_innocent(path.relative_to(ROOT).as_posix(), word)
    ]
    assert not hits, "\n".join(hits)


def test_what_is_excused_is_there():
    for name, word in [*INNOCENT, *((name, word) for name, words in OWN_WORDS.items() for word in words)]:
        assert word in {found for _, found in find((ROOT / name).read_text(encoding="utf-8"))}, name


@pytest.mark.parametrize(
    "text",
    ["FkTable", "fk_tables", "FKTable", "Chi2Row", "chi2_per_point", "a PDF's", "T0, MADE", "sum_rules", "PDFs",
     "SentencePairs", "class Translator", "translations_of", "Vocabularies", "detokenized", "BLEU", "flavors", "χ²"],
)  # fmt: skip
def test_words_are_found_in_every_form(text):
    assert list(find(text))


@pytest.mark.parametrize("text", ["set0", "replicas", "tokenless", "fkt", "chip2", "closure2", "part0", "xpdfx"])
def test_other_words_are_not(text):
    assert not list(find(text))


def test_the_contract_between_workloads_has_each_of_them():
    setup = ConfigParser()
    setup.read(ROOT.parent / "setup.cfg")
    folders = sorted(f"tfperf.workloads.{path.parent.name}" for path in (ROOT / "workloads").glob("*/__init__.py"))
    assert setup["importlinter:contract:workloads"]["modules"].split() == folders and len(folders) > 1
