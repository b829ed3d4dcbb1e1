"""Texts as numbers of words, beside Python's own counting, and a network for which padding counts for nothing."""

import re
from collections import Counter
from pathlib import Path

import keras
import numpy as np
import pytest

from tests.zoo.splits import check_split
from tfperf.errors import UserError
from tfperf.zoo import inputs, text
from tfperf.zoo.inputs import reorder_samples
from tfperf.zoo.text import build_model, load_samples

ROOT = Path(__file__).parents[2]


def read_rows():
    """Package and words of each row, in the loader's order, read in the plainest way."""
    lines = (ROOT / "data" / "gettext_en_de" / "pairs.tsv").read_text(encoding="utf-8").splitlines()[1:]
    packages, texts = zip(*(line.split("\t")[:2] for line in lines), strict=True)
    labels, ordered = reorder_samples(np.array(packages), np.array(texts))
    return labels, [re.findall(r"\w+|[^\w\s]", one.lower()) for one in ordered]


def test_words_have_numbers_by_their_frequency_among_those_that_train():
    words, length = 500, 12
    x, y = load_samples(words=words, length=length)
    packages, texts = read_rows()
    assert (x.shape, y.shape) == ((8491, length), (8491,)) and x.dtype == np.int32 and x.max() == words - 1
    np.testing.assert_array_equal(np.array(sorted({*packages}))[y], packages)
    check_split(y)
    counts = Counter(word for one in texts[: round(0.8 * len(texts))] for word in one)
    numbers: dict[str, int] = {}
    for row, one in zip(x, texts, strict=True):
        kept = one[:length]
        assert np.all(row[: len(kept)] > 0) and np.all(row[len(kept) :] == 0)
        for word, number in zip(kept, row, strict=False):
            assert numbers.setdefault(word, number) == number
    known = {word: number for word, number in numbers.items() if number > 1}
    assert len({*known.values()}) == len(known)
    ordered = [counts[word] for word in sorted(known, key=lambda word: known[word])]
    assert ordered == sorted(ordered, reverse=True)
    rarest = ordered[-1]
    assert all(word in known for word in numbers if counts[word] > rarest)


def test_words_of_what_validates_have_no_numbers(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("package\tenglish\n" + "".join(f"p{i % 2}\tword{i}\n" for i in range(10)) + "p1\t \n")
    x, y = load_samples(str(path), words=100, length=2, learned_share=0.5)
    assert sorted(x[:5, 0]) == [2, 3, 4, 5, 6] and np.all(x[5:, 0] == 1) and not x[:, 1].any()
    assert sorted(y) == [0] * 5 + [1] * 5


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, r"pairs: no such file: .*pairs\.tsv; must be a tab-separated file with columns package and english"),
        (b"package\tgerman\na\tb\n", "no column 'english'; must be"),
        (b"english\npackage\n", "no column 'package'; must be"),
        (b"package\tenglish\na\t\xff\n", "cannot be read: 'utf-8' codec"),
        (b"package\tenglish\n", "has no texts"),
    ],
)
def test_what_is_no_table_is_told(tmp_path, content, said):
    path = tmp_path / "pairs.tsv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=said):
        load_samples(str(path))


def test_the_table_is_that_of_the_repository_or_of_the_clone_in_which_the_command_runs(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert text._find_pairs(None) == ROOT / text.PAIRS
    monkeypatch.setattr(inputs, "__file__", str(tmp_path / "site" / "tfperf" / "zoo" / "inputs.py"))
    with pytest.raises(UserError, match=f"no such file: {tmp_path}/site/data/.*, {tmp_path}/data/"):
        load_samples()
    monkeypatch.chdir(ROOT)
    assert text._find_pairs(None) == text.PAIRS


def test_padding_changes_nothing():
    keras.utils.set_random_seed(1)
    wide = build_model(words=50, length=20, classes=3, units=8, heads=2, blocks=2)
    narrow = build_model(words=50, length=7, classes=3, units=8, heads=2, blocks=2)
    narrow.set_weights([
        value[:7] if value.shape == (20, 8) else value for value in wide.get_weights()
    ])  # fmt: skip
    x = np.random.default_rng(1).integers(1, 50, (9, 7))
    x[np.arange(7) > np.arange(9)[:, None]] = 0
    padded = np.pad(x, ((0, 0), (0, 13)))
    # sums of a few numbers near 1 in another order
    np.testing.assert_allclose(wide(padded), narrow(x), rtol=1e-5)
    assert np.ptp(wide(padded), axis=0).min() > 1e-3, "texts differ"


def test_the_model_takes_a_step():
    x, y = load_samples(words=100, length=8)
    model = build_model(words=100, length=8, units=8, heads=2)
    model.jit_compile = False  # XLA takes seconds to compile it
    logs = model.train_on_batch(x[:32], y[:32], return_dict=True)
    assert {*logs} == {"loss", "accuracy"} and np.isfinite(logs["loss"])
