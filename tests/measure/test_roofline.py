import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tfperf.measure import roofline
from tfperf.measure.roofline import Ceilings, Work, compute_bound_seconds, measure_ceilings, measure_tensorflow

MACHINE = Ceilings(bandwidth_gb_s=50.0, cache_gb_s=100.0, gflops=200.0, precision="float32", threads=2)


def test_the_bound_is_the_longer_of_arithmetic_and_traffic():
    # 4 GFLOP at 200 against 1 GB at 50: equal
    assert compute_bound_seconds(Work(4e9, 1e9), MACHINE) == pytest.approx(0.02)
    assert compute_bound_seconds(Work(6e9, 1e9), MACHINE) == pytest.approx(0.03)
    assert compute_bound_seconds(Work(4e9, 3e9), MACHINE) == pytest.approx(0.06)
    assert compute_bound_seconds(Work(4e9, 3e9), MACHINE, cached=True) == pytest.approx(0.03)
    assert compute_bound_seconds(Work(4e9, 1e9), MACHINE, cached=True) == pytest.approx(0.02)


def test_work_adds_up():
    work = Work(1, 2, 3, 4, {"dot": 5}) + Work(10, 20, 30, 40, {"dot": 1, "copy": 2}) * 3
    assert work == Work(31, 62, 93, 124, {"dot": 8, "copy": 6})


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_measures_this_machine(precision):
    found = measure_ceilings(1, precision)
    assert (found.precision, found.threads) == (precision, 1)
    # any processor of the last twenty years, and none yet to come
    assert 0.5 < found.bandwidth_gb_s < 1000 and 1 < found.cache_gb_s < 2000 and 1 < found.gflops < 2000


def test_imports_neither_tensorflow_nor_the_package():
    done = subprocess.run(
        [sys.executable, "-P", "-X", "importtime", roofline.__file__, "1", "float32"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    modules = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "numpy" in modules and not modules & {"tensorflow", "keras", "tfperf"}


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_figures_are_work_over_time(monkeypatch, precision):
    runs = []

    def best(run, seconds=0.0):
        runs.append(run())
        return 0.5

    monkeypatch.setattr(roofline, "_measure_shortest", best)
    monkeypatch.setattr(roofline, "_compute_stream_bytes", lambda: 8 * 2**20)
    memory, cache, gflops = roofline._measure_figures(2, precision)
    # changing in place reads and writes: twice the bytes of all arrays in 0.5 s
    assert memory == pytest.approx(2 * 8 * 2**20 / 0.5 / 1e9)
    assert cache == pytest.approx(2 * 2 * 2**20 * 100 / 0.5 / 1e9)
    side = len(runs[-1])
    assert gflops == pytest.approx(2 * side**3 / 0.5 / 1e9)
    assert runs[-1].dtype == precision and (runs[-1] == side).all()
    assert [len(r) for r in runs[:4]] == [2] * 4  # a result of each thread


def test_passes_over_a_cached_array_all_happen(monkeypatch):
    arrays = []
    monkeypatch.setattr(roofline, "_measure_shortest", lambda run: arrays.append(run()) or 1.0)  # type: ignore[func-returns-value]
    with ThreadPoolExecutor(2) as pool:
        for passes in (4, 5):
            roofline._measure_bandwidth(pool, 2, 2**20, passes, "float32")
            read, changed = arrays[-2:]
            assert [r.tolist() for r in read] == [[1.0] * passes] * 2
            sign = -1 if passes % 2 else 1
            assert [(a == sign).all() and a.nbytes for a in changed] == [2**20] * 2


def test_the_best_run_counts(monkeypatch):
    now = iter([0.0, 1.0, 4.0, 4.0, 6.0, 6.0, 11.0, 11.0])  # the end, then start and stop of each run and the checks
    monkeypatch.setattr("time.perf_counter", lambda: next(now))
    runs = []
    assert roofline._measure_shortest(lambda: runs.append(1), seconds=0.0) == 2.0
    assert len(runs) == 4  # one to warm up, three that count


def cache(folder, cpu, index, level, cores, size):
    found = folder / f"cpu{cpu}" / "cache" / f"index{index}"
    found.mkdir(parents=True)
    for name, text in (("level", level), ("shared_cpu_list", cores), ("size", size)):
        (found / name).write_text(f"{text}\n")


def test_streams_over_more_than_the_last_level_caches(monkeypatch, tmp_path):
    monkeypatch.setattr(roofline, "CACHES", tmp_path)
    assert roofline._compute_stream_bytes() == 4 * roofline.UNKNOWN_CACHE
    for cpu in range(4):
        cache(tmp_path, cpu, 2, 2, str(cpu), "1024K")
        cache(tmp_path, cpu, 3, 3, "0-1" if cpu < 2 else "2-3", "32768K")
    cache(tmp_path, 9, 3, 3, "9", "unknown")
    assert roofline._read_cache_bytes() == 2 * 32 * 2**20
    assert roofline._compute_stream_bytes() == 8 * 32 * 2**20
    cache(tmp_path, 8, 3, 3, "8", "4194304K")
    assert roofline._compute_stream_bytes() == roofline.LARGEST


def test_a_failure_is_told(monkeypatch):
    with pytest.raises(RuntimeError, match="of the machine failed: ValueError: max_workers must be"):
        measure_ceilings(0, "float32")
    monkeypatch.setattr(roofline, "LONGEST", 0.01)
    with pytest.raises(RuntimeError, match="took longer than"):
        measure_ceilings(1, "float32")


def test_tensorflow_measures_the_same(monkeypatch):
    monkeypatch.setattr(roofline, "SECONDS", 0.02)
    monkeypatch.setattr(roofline, "_compute_side", lambda threads: 512)
    found, other = measure_tensorflow(2, "float32"), measure_ceilings(1, "float32")
    assert (found.precision, found.threads) == ("float32", 2)
    # wide, for the machine may be busy in one of them, and TensorFlow has all cores; wrong counts are off by more
    for got, want in ((found.gflops, other.gflops), (found.bandwidth_gb_s, other.bandwidth_gb_s)):
        assert 1 / 6 < got / want < 10
    assert np.isfinite(found.cache_gb_s) and found.cache_gb_s > 1
