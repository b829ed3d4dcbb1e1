"""Processes that answer messages, and what they say at their end."""

import os
import signal
import time

import pytest

from tfperf.infer.subprocesses import MessageProcess


def close_and_raise(connection, seconds):
    connection.close()
    time.sleep(seconds)
    raise ValueError("no such weights")


def answer(connection, spec):
    connection.send(spec)
    connection.recv()


def test_the_reason_of_one_that_is_about_to_end_is_waited_for():
    process = MessageProcess(close_and_raise, 0.5, {})
    with pytest.raises(EOFError):
        process.connection.recv()
    assert process.kill() == "its process ended with 1: ValueError: no such weights"


def test_one_that_does_not_end_is_killed_at_once_and_one_that_was_killed_says_so():
    hung, killed = MessageProcess(answer, "hung", {}), MessageProcess(answer, "killed", {})
    assert hung.connection.recv() == "hung" and killed.connection.recv() == "killed"
    os.kill(killed.process_id, signal.SIGKILL)
    begin = time.monotonic()
    assert {hung.kill(), killed.kill()} == {"its process was killed by signal 9"}
    assert time.monotonic() - begin < 4  # not the patience for those that end by themselves
