"""Child processes: good, bad, killed, and stopped by a signal."""

import os
import signal
import sys
import threading
import time

import pytest

from tests.make_pack import make_card
from tfperf.errors import CardError, Stopped
from tfperf.runcard.dump import to_json_tree
from tfperf.signals import Signals
from tfperf.study import process
from tfperf.study.process import run_variant
from tfperf.workloads.pdf.cards import load_card
from tfperf.workloads.switches import Request


def child(monkeypatch, code):
    monkeypatch.setattr(process, "COMMAND", (sys.executable, "-c", "import sys, json\n" + code))
    return run_variant(Request({}, checked=(1, 2)), Signals())


def test_the_request_goes_in_and_the_last_line_comes_back(monkeypatch):
    code = "print('chatter'); print(json.dumps({'got': json.loads(sys.stdin.readline())['checked']}))"
    assert child(monkeypatch, code) == {"got": [1, 2]}


def test_a_failure_is_told_by_its_last_words(monkeypatch):
    assert child(monkeypatch, "raise ValueError('boom')") == {"error": "its process ended with 1: ValueError: boom"}
    assert "killed" in child(monkeypatch, "import os; os.kill(os.getpid(), 9)")["error"]
    assert "ended with 0" in child(monkeypatch, "print('no record')")["error"]


def test_a_refusal_is_the_users_fault(monkeypatch):
    with pytest.raises(CardError, match="not that"):
        child(monkeypatch, "print(json.dumps({'refused': ['not that']}))")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_trial_at_once(monkeypatch, number):
    monkeypatch.setattr(process, "COMMAND", (sys.executable, "-c", "import time; time.sleep(60)"))
    threading.Timer(0.3, os.kill, (os.getpid(), number)).start()
    start = time.monotonic()
    with Signals().listen() as signals, signals.defer(), pytest.raises(Stopped, match="goes on") as stop:
        run_variant(Request({}), signals)
    assert time.monotonic() - start < 20 and stop.value.exit_code == 128 + number


@pytest.mark.slow
def test_a_real_trial_is_a_process_of_its_own(tmp_path):
    tree = to_json_tree(load_card(make_card(tmp_path, replicas=2), ["engine.form=shared"]))
    record = run_variant(Request(tree, checked=(1, 2)), Signals())
    assert len(record["losses"]["training"]) == 2
