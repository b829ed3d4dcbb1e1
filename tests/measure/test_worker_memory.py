"""Memory of a process and of those that it has begun."""

import subprocess
import sys

import pytest

from tfperf.measure.environment import measure_peak_rss_bytes
from tfperf.measure.worker_memory import measure_loader_bytes

SIZE = 60_000_000


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_children_hold_counts_while_they_live():
    before = measure_loader_bytes()
    program = f"x = b'1' * {SIZE}; print('ready', flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with child:
        assert child.stdout is not None and child.stdout.readline() == b"ready\n"
        during = measure_loader_bytes()
        child.communicate(b"\n")
    assert SIZE < during - before < SIZE + 60_000_000
    assert measure_loader_bytes() - before < SIZE / 2


def test_where_the_system_tells_nothing_of_others_the_own_peak_is_left(tmp_path):
    assert measure_loader_bytes(tmp_path) == pytest.approx(measure_peak_rss_bytes(), rel=0.1)
