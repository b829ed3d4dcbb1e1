"""The bound beside a step's time: its figures are kept in the cache, and do not differ for it."""

from types import SimpleNamespace

import pytest

from tests.train.problems import make_ensemble, make_problem
from tfperf.data.cache import VARIABLE
from tfperf.measure import roofline
from tfperf.measure.lowering import Lowering
from tfperf.measure.roofline import Ceilings
from tfperf.train.bound import estimate_bound

SECONDS = 0.002


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory):
    card, problem = make_problem(tmp_path_factory.mktemp("bound"), ["engine.form=shared", "engine.cache=true"])
    ensemble = make_ensemble(card, problem)
    yield ensemble
    ensemble.close()


@pytest.fixture(scope="module")
def text(ensemble):
    import tensorflow as tf

    return Lowering(ensemble.largest_loop.get_program("steps", xla=True), tf.constant(1, tf.int64)).compile_hlo()


@pytest.fixture
def calls(tmp_path, monkeypatch, text):
    """An empty cache, and what was compiled and measured since: the machine gets faster each time."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    found = []

    def optimized(_):
        found.append("compiled")
        return text

    def measure(threads, precision):
        found.append("measured")
        speed = 0.01 * found.count("measured")
        return Ceilings(20 - speed, 100 * speed, 100 * speed, precision, threads)

    monkeypatch.setattr(Lowering, "compile_hlo", optimized)
    monkeypatch.setattr(roofline, "measure_ceilings", measure)
    return found


def estimate(ensemble, seconds=SECONDS, **given):
    trainer = {"xla": True, "seconds_of_steps": 20.0, "seconds_per_step": {ensemble.size: [seconds]}} | given
    return estimate_bound(ensemble, SimpleNamespace(**trainer), 2)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_second_run_neither_compiles_nor_measures(ensemble, calls):
    first = estimate(ensemble, 100.0)
    assert calls == ["compiled", "measured"]
    assert estimate(ensemble, 100.0) == first
    assert calls == ["compiled", "measured"]
    assert first["share_of_bound"] == first["bound_ms"] / 1e5 and first["mflop_in_products"] > 0


def test_what_is_damaged_is_made_again(ensemble, calls, tmp_path):
    first = estimate(ensemble, 100.0)
    for entry in (tmp_path / "cache" / "operators").glob("work-*.npz"):
        entry.write_bytes(entry.read_bytes()[:-20])
    assert estimate(ensemble, 100.0) == first
    assert calls == ["compiled", "measured", "compiled"]


def test_a_step_that_beats_its_bound_has_the_machine_measured_again(ensemble, calls):
    slow = estimate(ensemble, 100.0)
    assert slow["gflop_per_s"] == 1 and slow["bound_ms"] > 1e-6
    fast = estimate(ensemble, 1e-9)
    assert calls == ["compiled", "measured", "measured"]
    assert fast["gflop_per_s"] == 2 and fast["memory_gb_per_s"] == slow["memory_gb_per_s"], "the best of both"
    assert estimate(ensemble, 100.0)["gflop_per_s"] == 2, "and kept"


def test_without_a_cache_all_is_made_each_time(ensemble, calls, monkeypatch):
    monkeypatch.setenv(VARIABLE, "/dev/null/nowhere")
    assert estimate(ensemble, 100.0)["bound_ms"] == estimate(ensemble, 100.0)["bound_ms"] * 2
    assert calls == ["compiled", "measured"] * 2


@pytest.mark.parametrize(("given", "why"), [
    ({"xla": False}, "XLA"), ({"seconds_of_steps": 9.0}, "10 s"),
    ({"seconds_per_step": {1: [1.0]}}, "all of the last"),
])  # fmt: skip
def test_what_is_not_counted_says_why(ensemble, calls, given, why):
    assert why in estimate(ensemble, **given)["n/a"] and not calls


def test_a_measurement_that_fails_is_no_error(ensemble, calls, monkeypatch):
    def fail(*_):
        raise RuntimeError("no NumPy")

    monkeypatch.setattr(roofline, "measure_ceilings", fail)
    assert estimate(ensemble) == {"n/a": "no NumPy"}
