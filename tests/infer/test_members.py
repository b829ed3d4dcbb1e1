"""Workers on members of a place, with real Dask workers of this machine, but models without TensorFlow."""

import os
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from tests.infer.programs import make_preparer, make_worker
from tests.infer.test_dispatcher import RECORDS, WINDOW, Collector, check
from tfperf.cluster.site import Site
from tfperf.errors import CardError, TrainingError
from tfperf.infer.dispatch_records import DispatchHooks, DispatchRule, MemberSlot
from tfperf.infer.dispatcher import Dispatcher
from tfperf.infer.links import LinkListener, open_link
from tfperf.infer.member_launcher import MemberLauncher
from tfperf.infer.micro_batches import BatchRule
from tfperf.infer.remote_worker import RemoteWorker
from tfperf.infer.seats import PATIENCE_SECONDS, Seats
from tfperf.infer.subprocesses import receive_all

pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning", "ignore:.*:ResourceWarning")


def get_parent(process):
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def list_members():
    """Children of this process, Dask's workers, that have a worker's process below them."""
    found = set()
    for process in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):  # it has just ended
            member = get_parent(process)
            if b"serve_messages" in Path(f"/proc/{process}/cmdline").read_bytes() and get_parent(member) == os.getpid():
                found.add(member)
    return sorted(found)


def run(spec, members=2, *, timeout=20.0, note=lambda event: None, **options):
    found = Collector()

    def note_both(event):
        found.events.append(event)
        note(event)

    slots = [MemberSlot(f"member {place}", spec, member=place, **options) for place in range(members)]
    hooks = DispatchHooks(found.give, note_both, found.said.append)
    rule = DispatchRule(BatchRule(total_length=64), timeout=timeout)
    launcher = MemberLauncher(Site("local", members), slots)
    try:
        wanted = iter(range(-(-RECORDS // WINDOW)))
        Dispatcher(slots, make_preparer(RECORDS, WINDOW), rule, hooks, launcher=launcher).run(
            wanted, -(-RECORDS // WINDOW),
            lambda window: np.zeros(min(WINDOW, RECORDS - window * WINDOW), bool),
        )  # fmt: skip
    finally:
        launcher.close()
    assert not list_members()
    return found


def test_a_member_that_is_killed_is_replaced_and_its_work_done_by_others():
    killed = []

    def kill_one(event):
        if not killed:
            killed.append(list_members()[0])
            os.kill(killed[0], signal.SIGKILL)

    found = run(make_worker(of_batch=0.1), note=kill_one)
    check(found)
    assert killed and {one.slot for one in found.events} == {0, 1}
    (said,) = found.said
    assert ": gone (tcp://" in said and said.endswith("others do what it had")


def test_a_record_that_kills_the_model_is_told_from_a_member_that_is_lost():
    bad = {5: "raised", 70: "crashed"}
    found = run(make_worker(bad))
    check(found, bad)
    assert {record: one.reason for record, one in found.failures.items()} == bad
    assert all("its process was killed by signal 6" in one for one in found.said) and len(found.said) == 2


def refuse():
    raise CardError("queue.devices: got gpu:7; this machine has 0 GPUs")


def test_what_a_member_refuses_ends_the_run_with_its_words():
    with pytest.raises(TrainingError, match=r"member 0: .*this machine has 0 GPUs, 3 times"):
        run(make_worker(), 1, find_environment=refuse)


def test_links_are_for_those_who_know_the_key():
    listener, worker = LinkListener("127.0.0.1"), RemoteWorker("there")
    listener.add(7, worker.serve)
    silent = socket.create_connection((listener.host, listener.port))
    with pytest.raises(Exception, match="digest"):
        open_link(listener.host, listener.port, b"other", 7)
    link = open_link(listener.host, listener.port, listener.key, 7)
    worker.send("question")
    assert link.connection.recv() == "question"
    link.connection.send(("rows", 1))
    assert next(receive_all(worker.connection)) == ("rows", 1)
    link.connection.send_bytes(b"")
    link.connection.send_bytes(b"killed")
    assert next(receive_all(worker.connection)) is None
    assert worker.loss == "crashed" and worker.kill() == "killed"
    for one in (link, silent, listener):
        one.close()


def test_who_stops_in_the_middle_of_a_message_keeps_nobody_waiting():
    listener, worker = LinkListener("127.0.0.1"), RemoteWorker("there")
    listener.add(1, worker.serve)
    link = open_link(listener.host, listener.port, listener.key, 1)
    os.write(link.connection.fileno(), b"\0\0\1\0half")
    time.sleep(0.1)
    assert not worker.connection.poll(0) and worker.loss == "gone"
    assert "there has left" in worker.kill()
    with pytest.raises((EOFError, OSError)):
        link.connection.recv_bytes()
    for one in (link, listener):
        one.close()


def test_numbers_go_to_successors_and_who_is_missing_is_told_once():
    now = [0.0]
    seats = Seats("slurm", 3, lambda: now[0])
    seats.update(["a", "b", "c"])
    seats.update(["a", "c"])
    assert seats.find(1) is None and not seats.pop_news()
    now[0] += PATIENCE_SECONDS + 1
    for _ in range(2):
        seats.update(["a", "c"])
    assert seats.pop_news() == ["2 of 3 members of slurm are there; the work goes on with these"]
    seats.update(["a", "c", "d"])
    assert [seats.find(number) for number in range(3)] == ["a", "d", "c"]
    seats.release(0, "b")
    seats.release(0, "a")
    assert seats.find(0) is None
    seats.update(["a", "c", "d"])
    assert seats.find(0) == "a" and not seats.pop_news()
    seats.update([], "no such queue")
    assert seats.pop_news() == ["0 of 3 members of slurm are there: no such queue; waiting"]
