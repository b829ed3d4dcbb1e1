"""CPU time of this process and of those that it began."""

import subprocess
import sys

import pytest

from tfperf.inputs.process_counters import read_processor_seconds

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


@pytest.mark.parametrize("grandchildren", [0, 1])
def test_the_time_of_children_that_run_counts(grandchildren):
    before = read_processor_seconds()
    command = [sys.executable, "-c", SPEND, str(grandchildren)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        spent = read_processor_seconds() - before
        child.communicate()
    # hundredths of a second of each process, some tenths to start the interpreter and this process' own share
    assert spent == pytest.approx(0.4 * (1 + grandchildren), abs=0.15)
