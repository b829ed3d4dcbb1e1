"""Damaged results are refused, or read as plain h5py reads them."""

import numpy as np
import pytest

from tests.fuzz.attack import attack, each_of
from tests.fuzz.damage import flipped
from tests.fuzz.hdf5 import edits, outside_chunks
from tests.fuzz.results import IDENTITY
from tests.make_result import make_result
from tfperf.workloads.pdf.results import store
from tfperf.workloads.translate import results as translation
from tfperf.workloads.translate.results import LossHistory, TranslationResult

KINDS = ("compare", "compare_translation")


def write(kind, path):
    """Small results of a fit or a translation."""
    if kind == "compare":
        store.write(path, make_result(replicas=3, sets=2, points=4, rows=3), IDENTITY)
    else:
        history = LossHistory(np.arange(5.0), np.array([2, 4]), np.array([3.0, 2.5]))
        weights = {"table/kernel": np.ones((3, 2), np.float32), "bias": np.zeros(2, np.float32)}
        translation.write(path, TranslationResult("small", 4, weights, history, {"steps": 5}), IDENTITY)
    return path


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def good(kind, tmp_path):
    return write(kind, tmp_path / "good.h5")


@pytest.fixture
def ask(kind, tmp_path, worker):
    def one(content, steps=()):
        path = tmp_path / "results.h5"
        path.write_bytes(content)
        return worker.ask(f"tests.fuzz.results:{kind}", path, steps)[0]

    return one


@each_of(12, 250)
def test_results_with_flipped_bytes_are_refused_or_read_as_they_are(cases, good, ask):
    attack(cases, flipped(good.read_bytes(), outside_chunks(good)), ask, b"", verdicts=["refused"])


@each_of(12, 250)
def test_edited_results_are_refused_or_read_as_they_are(cases, good, ask):
    whole = good.read_bytes()
    attack(cases, edits(good), lambda steps: ask(whole, steps))
