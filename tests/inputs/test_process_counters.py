"""CPU time of this process and of those that it began."""

import contextlib
import subprocess
import sys
import time

import pytest

from tfperf.inputs.process_counters import ProcessorMeter

SPEND = """
import subprocess, sys, time
children, child = int(sys.argv[1]), None
if children:
    child = subprocess.Popen([*sys.orig_argv[:-1], str(children - 1)], stdout=subprocess.PIPE)
while time.process_time() < 0.4:
    pass
if child is not None:
    child.stdout.readline()
print("spent", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def begin(grandchildren):
    """A process that has used 0.4 s, as each of its descendants has, and goes on until it is told to end."""
    command = [sys.executable, "-c", SPEND, str(grandchildren)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield child


@pytest.mark.parametrize("grandchildren", [0, 1])
def test_the_time_of_children_counts_once_while_they_run_and_when_they_have_ended(grandchildren):
    meter = ProcessorMeter()
    before = meter.read_seconds()
    with begin(grandchildren):
        spent = meter.read_seconds() - before
    after = meter.read_seconds() - before
    # hundredths of a second of each process, some tenths to start the interpreter and this process' own share
    assert spent == pytest.approx(0.4 * (1 + grandchildren), abs=0.15)
    assert spent <= after < spent + 0.15


def test_children_that_came_and_went_between_two_readings_count():
    meter = ProcessorMeter()
    before = meter.read_seconds()
    for _ in range(2):
        with begin(0):
            pass
    assert meter.read_seconds() - before == pytest.approx(0.8, abs=0.3)


def test_a_child_whose_parent_was_killed_does_not_take_its_time_back():
    meter = ProcessorMeter()
    before = meter.read_seconds()
    with begin(1) as child:
        spent = meter.read_seconds() - before
        child.kill()
        child.wait()
        assert spent <= (left := meter.read_seconds() - before) < spent + 0.1
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
    assert meter.read_seconds() - before == pytest.approx(left + 0.2, abs=0.05)


def test_readings_do_not_count_themselves():
    meter = ProcessorMeter()
    before, own = meter.read_seconds(), time.process_time()
    for _ in range(200):
        meter.read_seconds()
    read, own = meter.read_seconds() - before, time.process_time() - own
    assert 0 <= read < 0.5 * own
