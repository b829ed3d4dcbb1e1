"""Damaged reports, lists of survivors and vocabularies are refused, or taken at their word."""

import json

import pytest
from hypothesis import strategies as st

from tests.fuzz.attack import attack, each_of
from tests.fuzz.damage import edited, flipped
from tests.fuzz.hdf5 import edits
from tests.make_run import make_run
from tfperf.workloads.pdf.results.postfit import apply_postfit
from tfperf.workloads.translate.vocabulary import learn

DEEP = b'{"a":' * 10**5


@pytest.fixture
def run(tmp_path):
    made = make_run(tmp_path / "run")
    apply_postfit(made)
    return made


def damaged(text):
    """Flipped bytes, and other values in the place of some."""
    return st.one_of(flipped(text.encode()), *2 * [edited(text).map(lambda tree: json.dumps(tree).encode())])


@each_of(20, 300)
def test_a_damaged_report_is_refused_or_compared_as_it_is(cases, run, tmp_path, worker):
    before = make_run(tmp_path / "before", seed=2)

    def ask(content):
        (run / "report.json").write_bytes(content)
        return worker.ask("tests.fuzz.reports:compare_runs", before, run)[0]

    attack(cases, damaged((run / "report.json").read_text()), ask, DEEP, b"", b"9" * 5000)


@each_of(12, 200)
def test_postfit_of_edited_results_is_refused_or_names_those_beyond_the_limits(cases, tmp_path, worker):
    run = make_run(tmp_path / "run", replicas=24)  # four sigma need 18
    whole = (run / "results.h5").read_bytes()

    def ask(steps):
        (run / "results.h5").write_bytes(whole)
        return worker.ask("tests.fuzz.reports:veto", run, steps)[0]

    figures = st.tuples(
        st.just("value"), st.sampled_from(["replicas/chi2_experimental", "replicas/arc_length", "replicas/id"]),
        st.integers(0, 50), st.sampled_from([1e308, -1e308, 0.0, float("nan"), float("inf"), 5.0, 100]),
    )  # fmt: skip
    beyond = [("value", "replicas/chi2_experimental", 2, 1.6), ("value", "replicas/arc_length", 50, 9.0)]
    attack(cases, edits(run / "results.h5") | st.lists(figures, min_size=1, max_size=4), ask, beyond, beyond[:1])


@each_of(12, 200)
def test_a_damaged_list_of_survivors_is_refused_or_taken_at_its_word(cases, run, worker):
    def ask(content):
        (run / "postfit.json").write_bytes(content)
        return worker.ask("tests.fuzz.reports:survive", run)[0]

    attack(cases, damaged((run / "postfit.json").read_text()), ask, DEEP)


@each_of(15, 200)
def test_a_damaged_vocabulary_is_refused_or_writes_what_it_reads(cases, tmp_path, worker):
    text = learn(["a file", "open the file", "files \u00d6ffnen"] * 9, 280).to_json()

    def ask(content):
        (tmp_path / "source.json").write_bytes(content)
        return worker.ask("tests.fuzz.reports:pieces", tmp_path / "source.json")[0]

    attack(cases, damaged(text), ask, text.encode(), DEEP, b"[" * 10**6)
