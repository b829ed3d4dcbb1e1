"""A signal ends a program at once, or, where work would be lost, at the next safe point; never with another code."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tfperf.errors import Interrupted
from tfperf.signals import PATIENCE_SECONDS, Signals

PATIENCE = 0.5  # less than in earnest
# native code that Python's handlers have to wait for
STUCK = "hashlib.pbkdf2_hmac('sha256', b'', b'', 2**31 - 1)"
PROGRAM = """\
import hashlib, subprocess, sys, time
from tfperf import signals as module
from tfperf.signals import Signals
module.PATIENCE_SECONDS = {patience}
with Signals().listen(strict=True), Signals(advice="go on").listen() as signals:
    print("ready", flush=True)
    {}
"""


def start(code, **options):
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(code, patience=PATIENCE)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options,
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def end(process, number):
    """Seconds to its end, its code and what it said."""
    time.sleep(0.3)
    process.send_signal(number)
    begun = time.monotonic()
    _, errors = process.communicate(timeout=60)
    return time.monotonic() - begun, process.returncode, errors


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_native_code_does_not_hold_up_the_end(number, code):
    seconds, found, errors = end(start(STUCK), number)
    assert found == code and f"stopped by signal {number}; go on" in errors
    assert seconds > PATIENCE / 2, "the main thread had its time"


def test_a_patient_block_comes_to_its_end():
    code = f"with signals.defer(): time.sleep({PATIENCE} + 1); print('whole', flush=True)"
    process = start(code + "\n    signals.stop_if_asked(7)")
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=60)
    assert "whole" in output and "stopped by signal 15 at step 7; go on" in errors


def test_patience_lasts_to_the_end_of_the_outer_block():
    with Signals().listen() as signals, signals.defer():
        with signals.defer():
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)
        assert signals.received == signal.SIGTERM


def test_elsewhere_it_raises_at_once():
    with pytest.raises(Interrupted, match="stopped by signal 15; go on") as stop, Signals().listen() as signals:
        signals.advice = "go on"
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(30)
    assert stop.value.exit_code == 143 and not isinstance(stop.value, Exception)


class Dropping:
    """Its end is where Python drops what is raised."""

    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(1000):  # in which the handler runs
            pass


def test_a_signal_within_del_is_raised_soon_after():
    begun = time.monotonic()
    with pytest.raises(Interrupted, match="stopped by signal 15"), Signals().listen():
        Dropping()
        time.sleep(30)
    assert time.monotonic() - begun < 15
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


@pytest.mark.parametrize("defers", [True, False])
def test_a_signal_that_was_swallowed_ends_the_work_later(defers):
    """As by native code that calls back: the next patient block does not begin, at the latest the end tells."""
    reached = []
    with pytest.raises(Interrupted, match="stopped by signal 15"), Signals().listen() as signals:
        with suppress(Interrupted):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.1)
        reached.append("after")
        if defers:
            with signals.defer():
                reached.append("within")
    assert reached == ["after"]


def test_the_end_of_a_terminal_spares_who_was_started_by_nohup():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Signals().listen() as signals:
            os.kill(os.getpid(), signal.SIGHUP)
            time.sleep(0.1)
            assert signals.received is None
    finally:
        signal.signal(signal.SIGHUP, before)


def test_no_child_outlives_a_program_that_had_to_be_ended():
    code = f"child = subprocess.Popen(['sleep', '1000']); print(child.pid, flush=True); {STUCK}"
    process = start(code)
    child = int(process.stdout.readline())
    assert end(process, signal.SIGTERM)[1] == 143
    deadline = time.monotonic() + 10
    while lives(child):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def lives(process):
    try:
        return "(sleep) Z" not in Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False


def test_who_waits_for_an_end_waits_less_than_five_seconds():
    assert PATIENCE_SECONDS < 5


def test_handlers_of_before_are_back_afterwards():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with Signals().listen(), Signals().listen():
        pass
    assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
