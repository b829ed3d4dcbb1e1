"""The error that a failed trial keeps: the first, of whichever worker, not the last line that was said."""

import sys
import time

import pytest

from tests.study.sweeps import ROOT
from tfperf.study.child import run_subprocess
from tfperf.study.first_error import find_first_error

GRAPH = """\
Traceback (most recent call last):
  File "/x/engine.py", line 57, in take
    losses = engine.call(iterator, tf.constant(count)).numpy()
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
tensorflow.python.framework.errors_impl.InvalidArgumentError: Graph execution error:

Detected at node while/CollectiveGatherV2 defined at (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main

Shape mismatch in the collective instance 133. Op expected shape [192,12].
The error could be from a previous operation. Restart your program to reset.
\t [[{{node while/CollectiveGatherV2}}]] [Op:__inference__call_2812]
"""
ABORTED = """\
Traceback (most recent call last):
  File "/x/engine.py", line 57, in take
tensorflow.python.framework.errors_impl.UnavailableError: Collective ops is aborted by: Connection reset by peer
"""
CHAINED = """\
Traceback (most recent call last):
  File "a.py", line 1, in <module>
KeyError: 'x'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 3, in <module>
ValueError: later
"""


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("", ""),
        ("a warning\nlast words", "last words"),
        (CHAINED, "KeyError: 'x'"),
        (ABORTED + CHAINED, "KeyError: 'x'"),
        (ABORTED, "tensorflow.python.framework.errors_impl.UnavailableError: Collective ops is aborted by: Connection "
         "reset by peer"),
        (GRAPH + "I0000 00:00:17 port.cc:153] done\n" + ABORTED,
         "tensorflow.python.framework.errors_impl.InvalidArgumentError: Graph execution error:; Shape mismatch in the "
         "collective instance 133. Op expected shape [192,12].; The error could be from a previous operation. Restart "
         "your program to reset."),
        ("I0000 x\nF0000 00:00:17 a.cc:5] Check failed\n*** aborted", "F0000 00:00:17 a.cc:5] Check failed"),
        ("worker 1: ended with -9 and has no record\n" + ABORTED, "worker 1: ended with -9 and has no record"),
        ("I0000 x\ndouble free or corruption (out)\nworker 2: ended with -6 and has no record\n" + ABORTED,
         "double free or corruption (out)"),
        ("munmap_chunk(): invalid pointer\n", "munmap_chunk(): invalid pointer"),
    ],
)  # fmt: skip
def test_first_error(said, error):
    assert find_first_error(said) == error


TRIAL = """
import json, os, sys, time
from tfperf.runcard.placement import Placement
from tfperf.place import local_workers
WORKER = '''
import json, os, sys, time
number = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
request = json.loads(sys.stdin.readline())
'''
local_workers.COMMAND = [sys.executable, "-c", WORKER + {worker!r}]
local_workers.LAST_WORDS_SECONDS = {words}
placement = Placement(engine="multiworker", merge="ring", devices=6, workers=3)
with local_workers.start_workers(placement, {{"folder": "x"}}):
    count = len(json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"])
    {body}
print(json.dumps({{"workers": count}}))
"""


def trial(worker, body="time.sleep(600)", words=0.5):
    """What the row of a trial has, of which workers and the first one run this code; words: seconds for the last."""
    start = time.monotonic()
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n" + TRIAL.format(worker=worker, body=body, words=words)
    found = run_subprocess([sys.executable, "-c", code], {}, lambda: False, 60)
    assert time.monotonic() - start < 30
    return found


def test_good_workers_leave_the_record_as_it_is():
    assert trial("print(json.dumps({'a': 1}))", "pass") == {"workers": 3}


@pytest.mark.parametrize(
    ("worker", "body", "error"),
    [
        ("if number == 2: raise ValueError('mine')\ntime.sleep(600)", "time.sleep(600)", "ValueError: mine"),
        ("if number == 2: os.kill(os.getpid(), 9)\ntime.sleep(600)", "time.sleep(600)", "worker 2: ended with -9 and"),
        ("print(json.dumps({'refused': ['no GPU']}))", "time.sleep(600)", ": no GPU"),
        ("print(json.dumps({'error': 'misplaced'}))", "pass", "worker 1: misplaced; worker 2: misplaced"),
        ("time.sleep(600)", "raise KeyError(0)", "KeyError: 0"),
    ],
)  # fmt: skip
def test_the_row_keeps_the_first_error_of_any_worker(worker, body, error):
    assert error in trial(worker, body)["error"]


def test_errors_that_come_while_others_end_are_waited_for():
    worker = "time.sleep(2 * (number - 1))\nraise ValueError(number)"
    assert "ValueError: 1" in trial(worker, "raise KeyError", words=20)["error"]


def test_what_another_worker_finds_against_the_placement_is_no_death_of_it():
    worker = "print(json.dumps({'unproved': [f'update: ran on CPU:{number}']}))"
    body = "import time; time.sleep(1.5)"  # longer than a trial outlives a worker that died
    error = trial(worker, body)["error"]
    assert error.endswith("UnprovedError: worker 1: update: ran on CPU:1; worker 2: update: ran on CPU:2")
