"""Free cores: sums by hand, control groups as files, and one real measurement."""

import math

import pytest

from tfperf.inputs import free_cores
from tfperf.inputs.cpu_quota import read_cpu_quota
from tfperf.inputs.free_cores import measure_free_cores, use_cores


def write(folder, groups):
    """Files of control groups from {path: content}, and the process's own list."""
    for name, text in groups.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return read_cpu_quota(folder, folder / "own")


@pytest.mark.parametrize(
    ("groups", "quota"),
    [
        ({"own": "0::/a/b\n", "a/b/cpu.max": "150000 100000\n", "a/cpu.max": "max 100000\n"}, 1.5),
        ({"own": "0::/a/b\n", "a/b/cpu.max": "max 100000\n", "a/cpu.max": "50000 100000\n", "cpu.max": "9 1\n"}, 0.5),
        ({"own": "0::/gone\n", "cpu.max": "200000 100000\n"}, 2.0),  # a container sees its own group as the root
        ({"own": "4:memory:/x\n2:cpu,cpuacct:/job\n", "cpu,cpuacct/job/cpu.cfs_quota_us": "300000",
          "cpu,cpuacct/job/cpu.cfs_period_us": "100000"}, 3.0),
        ({"own": "2:cpu:/job\n", "cpu/job/cpu.cfs_quota_us": "-1", "cpu/job/cpu.cfs_period_us": "100000"}, None),
        ({"own": "4:memory:/x\n", "cpu.max": "1 1\n"}, None),  # not one of its groups
        ({"own": "0::/\n", "cpu.max": "nonsense\n"}, None),
    ],
)  # fmt: skip
def test_the_least_quota_of_all_groups_holds(tmp_path, groups, quota):
    assert write(tmp_path, groups) == quota


def test_without_files_nothing_is_known(tmp_path):
    assert read_cpu_quota(tmp_path, tmp_path / "none") is None


@pytest.fixture
def four_cores(monkeypatch):
    monkeypatch.setattr(free_cores, "count_cores", lambda: 4)
    monkeypatch.setattr(free_cores, "read_cpu_quota", lambda: None)


def play(rounds):
    """Threads that get these shares of a second's time, round by round."""
    left = iter(rounds)
    return lambda threads, seconds: [(share * seconds, seconds) for share in next(left)]


def test_cores_are_the_mean_sum_of_shares(four_cores):
    found = measure_free_cores(1.0, 3, play([[0.5, 0.5, 0.5, 0.5], [0.75, 0.5, 0.5, 0.25], [1.0, 0.5, 0.5, 0.3]]))
    sums = [2.0, 2.0, 2.3]
    half = 4.303 * math.sqrt(0.03 / 3)  # Student's t of two degrees of freedom, variance 0.03 of three
    assert found.cores.value == pytest.approx(sum(sums) / 3) and found.cores.half == pytest.approx(half, rel=1e-3)
    assert (found.visible, found.quota) == (4, None)


def test_a_quota_bounds_what_short_rounds_got(four_cores, monkeypatch):
    monkeypatch.setattr(free_cores, "read_cpu_quota", lambda: 1.5)
    found = measure_free_cores(1.0, 2, play([[1.0, 1.0, 0.0, 0.0], [1.0, 0.9, 0.0, 0.0]]))
    assert found.cores.value == found.cores.high == 1.5 and found.quota == 1.5


def test_threads_get_no_more_than_the_machine_has():
    found = measure_free_cores(0.3, rounds=3)
    low, high = found.cores.low, found.cores.high
    assert low is not None and high is not None
    assert 0 <= low <= found.cores.value <= high <= found.visible and found.cores.value > 0


def test_spinning_threads_take_as_long_as_they_shall():
    spins = use_cores(2, 0.05)
    assert len(spins) == 2 and all(wall >= 0.05 and 0 < processor <= 1.01 * wall for processor, wall in spins)


def test_one_round_is_refused():
    with pytest.raises(ValueError, match="two rounds"):
        measure_free_cores(1.0, rounds=1)
