"""Results that claim more than they can hold, or contradict themselves, are refused before they are read."""

import dataclasses
import json
import resource
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest

from tests.make_result import make_result
from tests.workloads.pdf.results.test_store import assert_same_bits
from tfperf.errors import FileLimitError, RunDirectoryError
from tfperf.results import file_limits
from tfperf.workloads.pdf.kind import POSTFIT
from tfperf.workloads.pdf.results import postfit, store
from tfperf.workloads.translate import results as translation

OLD = Path(__file__).parent / "results-0.1.0.h5"


def memory():
    """Largest memory of this process so far, bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.fixture
def path(tmp_path):
    store.write(tmp_path / "results.h5", make_result())
    return tmp_path / "results.h5"


def replace(place, values):
    def change(file):
        attributes = dict(file[place].attrs)
        del file[place]
        file[place] = values
        file[place].attrs.update(attributes)

    return change


def claim(place, shape, chunks, written=0):
    """An array of that shape of which only some chunks are there, all zero."""

    def change(file):
        del file[place]
        array = file.create_dataset(place, shape, np.float64, chunks=chunks, compression="gzip")
        content = zlib.compress(bytes(int(np.prod(chunks)) * 8), 1)
        for i in range(written):
            array.id.write_direct_chunk((i * chunks[0], *(0 for _ in chunks[1:])), content)

    return change


def rename_set(file):
    file["datasets"].move("HERA_NC_001GEV_EP-SIGMARED", "other")


def link(place, target):
    def change(file):
        del file[place]
        file[place] = target

    return change


HOSTILE = {
    "x of 4e8 zeros": claim("x", (4 * 10**8,), (10**6,), 400),
    "unwritten pdf": claim("pdf", (6, 8, 10**9), (1, 1, 10**6)),
    "pdf of zeros": claim("pdf", (10**4, 8, 10**3), (100, 8, 1000), 100),
    "weights": claim("weights/dense/kernel", (6, 10**5, 10**4), (1, 100, 10**4), 6),
    "history": claim("history/training", (10**8, 6), (10**5, 6), 3),
    "status": replace("replicas/status", np.array([b"stopped"] * 5 + [b"guessed"])),
    "one status less": replace("replicas/status", np.array([b"stopped"] * 5)),
    "wide texts": replace("replicas/status", np.full(6, b"x", "S9000000")),
    "ids twice": replace("replicas/id", np.array([1, 2, 2, 4, 5, 6])),
    "ids from 0": replace("replicas/id", np.arange(6)),
    "ids too large": replace("replicas/id", np.arange(6) + 99_999),
    "ids of another type": replace("replicas/id", np.arange(6) + 1.0),
    "pdf of texts": replace("pdf", np.full((6, 8, 50), b"x")),
    "pdf of another kind": replace("pdf", np.zeros((6, 8, 50), complex)),
    "flavours": replace("pdf", np.zeros((6, 9, 50))),
    "replicas": replace("pdf", np.zeros((5, 8, 50))),
    "points": replace("datasets/HERA_NC_001GEV_EP-SIGMARED/cv", np.zeros(11)),
    "x falls": replace("x", np.linspace(1, 0.1, 50)),
    "another name": rename_set,
    "link": link("x", h5py.SoftLink("/pdf")),
    "link elsewhere": link("x", h5py.ExternalLink("other.h5", "/x")),
    "loop": link("weights", h5py.SoftLink("/weights")),
    "group for array": lambda f: (f.pop("x"), f.create_group("x")),
    "deep summary": replace("summary", np.array([b"[" * 100_000])),
    "summary is a list": replace("summary", np.array([b"[]"])),
    "attribute": lambda f: f["datasets"].attrs.create("names", np.zeros(10**6)),
    "two titles": lambda f: f.attrs.create("title", np.array([b"a", b"b"])),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_results_that_cannot_be_are_refused(path, what):
    with h5py.File(path, "r+") as file:
        HOSTILE[what](file)
    before = memory()
    with pytest.raises(RunDirectoryError, match=r"results\.h5: damaged") as caught:
        store.read(path)
    assert memory() - before < 1e8 and len(str(caught.value)) < 64_000


def test_a_translation_that_claims_too_much_is_refused(tmp_path):
    path = tmp_path / "results.h5"
    losses = translation.LossHistory(np.ones(5), np.array([2, 4]), np.ones(2))
    want = translation.TranslationResult("title", 2, {"a/b": np.ones((2, 3), np.float32)}, losses, {"a": 1})
    translation.write(path, want)
    assert_same_bits(translation.read(path), want)
    for change in (
        claim("history/loss", (10**9,), (10**6,)), claim("weights/a/b", (10**9,), (10**6,), 700),
        replace("history/validation_step", np.arange(3)), replace("summary", np.array([b"[" * 100_000])),
    ):  # fmt: skip
        translation.write(path, want)
        with h5py.File(path, "r+") as file:
            change(file)
        with pytest.raises(RunDirectoryError, match="damaged"):
            translation.read(path)


def test_results_of_version_0_1_0_are_read():
    made = make_result(replicas=2, sets=1, points=2, rows=2, failed=0)
    assert made.summary.pop("pack")  # which that version left out, as integrability
    replicas = dataclasses.replace(made.replicas, integrability=None)
    made = dataclasses.replace(made, replicas=replicas)
    assert_same_bits(store.read(OLD), made, rtol=1e-12)


@pytest.mark.parametrize("text", [
    "", "[", "[" * 100_000, "[]", "null", '{"results_sha256": 1}', '{"results_sha256": "x", "passed": 3}',
    '{"results_sha256": "SHA", "passed": ["a"]}', '{"results_sha256": "SHA", "passed": [1e400]}',
    '{"results_sha256": "SHA", "passed": [true, 2]}', '{"results_sha256": "SHA", "passed": [7]}',
    '{"results_sha256": "SHA", "passed": [1, 1]}', " " * 20_000_000,
])  # fmt: skip
def test_a_damaged_report_of_postfit_is_refused(path, text):
    postfit.apply_postfit(path.parent)
    report = path.parent / POSTFIT
    whole = json.loads(report.read_text())
    report.write_text(text.replace("SHA", whole["results_sha256"]))
    with pytest.raises(RunDirectoryError, match="run `tfperf postfit` again"):
        postfit.read_survivors(path.parent, store.read(path))


def test_a_report_of_postfit_that_is_no_file_is_refused(path):
    (path.parent / POSTFIT).symlink_to("/dev/zero")
    with pytest.raises(RunDirectoryError, match="run `tfperf postfit` again"):
        postfit.read_survivors(path.parent, store.read(path))


def test_arrays_take_no_more_together_than_their_file_may_hold(tmp_path, monkeypatch):
    with h5py.File(tmp_path / "file.h5", "w") as file:
        for name in "ab":
            file.create_dataset(name, data=np.zeros(10_000), compression="gzip")
        monkeypatch.setattr(file_limits, "SPARE", 100_000)
        monkeypatch.setattr(file_limits, "FACTOR", 1)
        budget = file_limits.Budget(file)
        budget.charge(file["a"], 10**6)
        with pytest.raises(FileLimitError, match="more than are left"):
            budget.charge(file["b"], 10**6)
