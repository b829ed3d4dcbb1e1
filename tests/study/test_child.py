"""Children: their ends, and that nothing of theirs is left."""

import json
import os
import subprocess
import sys
import time
from threading import Event

import pytest

from tests.study.sweeps import ROOT, alive, environment, wait_for
from tfperf.measure import parent_watch
from tfperf.study import child
from tfperf.study.child import run_subprocess
from tfperf.study.memory_kills import KillCount

GRANDCHILD = (
    "import subprocess, sys; p = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(600)'])\n"
)
STARTER = """
import sys
from tfperf.study.child import run_subprocess
run_subprocess([sys.executable, "-c", sys.argv[1]], {"path": sys.argv[2]}, lambda: False)
"""
TIED = (
    """
import json, os, time
from tfperf.measure import parent_watch
request = parent_watch.read_request()
parent_watch.watch_parent()
"""
    + GRANDCHILD
    + """
open(request["path"], "w").write(f"{os.getpid()} {p.pid}")
time.sleep(600)
"""
)


def program(code, timeout=None, stopped=lambda: False):
    return run_subprocess([sys.executable, "-c", "import json, os, sys, time\n" + code], {"a": 1}, stopped, timeout)


def test_a_child_leads_a_session_of_its_own_and_gets_the_request():
    code = """
print(json.dumps([1]))
print(json.dumps({"got": json.loads(sys.stdin.readline()), "leads": os.getsid(0) == os.getpid()}))
"""
    assert program(code) == {"got": {"a": 1}, "leads": True}


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("raise ValueError('boom')", "its process ended with 1: ValueError: boom"),
        ("os.kill(os.getpid(), 11)", "its process was ended by SIGSEGV"),
        ("print('[1]')", "its process ended with 0"),
        ("raise MemoryError", "out of memory: its process ended with 1: MemoryError"),
        (
            "sys.exit('OOM when allocating tensor')",
            "out of memory: its process ended with 1: OOM when allocating tensor",
        ),
    ],
)
def test_why_there_is_no_record(code, error):
    assert program(code) == {"error": error}


@pytest.mark.parametrize(("destroyed", "attempts"), [(0, None), (1, 2), (2, 3), (3, 3)])
def test_a_program_whose_heap_is_destroyed_is_begun_again(tmp_path, destroyed, attempts):
    """The heap is really destroyed: free() of what malloc() never gave."""
    code = f"""
import ctypes, json, os
with open({str(tmp_path / "begun")!r}, "a") as begun:
    begun.write(".")
if os.path.getsize({str(tmp_path / "begun")!r}) <= {destroyed}:
    memory = ctypes.create_string_buffer(4096)
    ctypes.CDLL(None).free(ctypes.c_void_p(ctypes.addressof(memory) + 16))
print(json.dumps({{"ms": 1}}))
"""
    record, seconds = child.run_task(([sys.executable, "-c", code], {}, 60.0), Event())
    assert record is not None
    assert record.get("attempts") == attempts and seconds > 0
    if destroyed == child.ATTEMPTS:
        assert "SIGABRT" in record["error"] and "invalid" in record["error"]
    else:
        assert record["ms"] == 1
    assert (tmp_path / "begun").stat().st_size == min(destroyed + 1, child.ATTEMPTS)


@pytest.mark.parametrize(
    ("end", "begun"),
    [
        ("raise ValueError('free() lunch')", 1),
        ("os.kill(os.getpid(), 9)", 1),
        ("print('bad_alloc', file=sys.stderr); sys.stderr.flush(); os.abort()", 1),
        ("os.kill(os.getpid(), 11)", child.ATTEMPTS),
        ("os.kill(os.getpid(), 7)", child.ATTEMPTS),
        ("print('worker 4: ended with -7 and has no record', file=sys.stderr); sys.exit(1)", child.ATTEMPTS),
        ("print('worker 4: ended with -9 and has no record', file=sys.stderr); sys.exit(1)", 1),
    ],
)
def test_only_a_program_that_native_code_ended_is_begun_again(tmp_path, end, begun):
    code = f"import os, sys\nopen({str(tmp_path / 'begun')!r}, 'a').write('.')\n{end}"
    record, _ = child.run_task(([sys.executable, "-c", code], {}, 60.0), Event())
    assert record is not None
    assert "error" in record and (tmp_path / "begun").read_text() == "." * begun
    assert record.get("attempts", 1) == begun


@pytest.mark.parametrize(
    ("count", "of_group", "said"),
    [
        (4, True, "its process was killed by the system: out of memory"),
        (3, True, "its process was killed by SIGKILL, cause unknown: the system killed none for memory"),
        (4, False, "its process was killed by SIGKILL, cause unknown: the system killed for memory, this program or "
                   "another one"),
        (None, False, "its process was killed by SIGKILL, cause unknown: the system does not count kills for memory"),
    ],
)  # fmt: skip
def test_the_system_tells_whether_it_killed_for_memory(monkeypatch, count, of_group, said):
    counts = [KillCount(3, of_group), KillCount(count, of_group)]
    monkeypatch.setattr(child, "read_kill_count", lambda: counts.pop(0))
    assert program("os.kill(os.getpid(), 9)") == {"error": said}


def test_a_timeout_ends_it_and_what_it_started(tmp_path):
    path = tmp_path / "pid"
    start = time.monotonic()
    found = program(GRANDCHILD + f"import time; open('{path}', 'w').write(str(p.pid)); time.sleep(600)", timeout=1)
    assert found == {"error": "timeout: not done after 1 s"} and time.monotonic() - start < 20
    wait_for(lambda: not alive(path.read_text()), seconds=5)


def test_a_child_that_ends_well_leaves_no_grandchild(tmp_path):
    found = program(GRANDCHILD + "print(json.dumps({'pid': p.pid}))")
    wait_for(lambda: not alive(found["pid"]), seconds=5)


def test_a_record_counts_even_if_the_program_does_not_end():
    assert program("print('{\"b\": 2}', flush=True); time.sleep(600)", timeout=1) == {"b": 2}


def test_stopped_before_it_had_a_record_it_has_none():
    assert program("time.sleep(600)", stopped=iter([False, True, True, True]).__next__) is None


@pytest.mark.parametrize("program", [TIED, TIED.replace("time.sleep(600)\n", "while True: pass\n")])
def test_a_killed_starter_takes_all_with_it(tmp_path, program):
    path = tmp_path / "pids"
    command = [sys.executable, "-c", STARTER, program, str(path)]
    with subprocess.Popen(command, cwd=ROOT, env=environment()) as starter:
        pids = wait_for(lambda: path.exists() and path.read_text().split())
        assert len(pids) == 2 and all(map(alive, pids))
        starter.kill()
    wait_for(lambda: not any(map(alive, pids)), seconds=5)


def test_a_child_whose_starter_is_gone_ends_at_once():
    code = "from tfperf.measure import parent_watch; parent_watch.watch_parent(); print('went on')"
    settings = environment() | {parent_watch.STARTER: str(os.getpid() + 10**6)}
    found = subprocess.run([sys.executable, "-c", code], env=settings, cwd=ROOT, capture_output=True, check=False)
    assert found.returncode == parent_watch.ORPHANED and not found.stdout


def test_a_program_started_by_hand_is_not_tied():
    code = """
import time
from tfperf.measure import parent_watch
parent_watch.read_request()
parent_watch.watch_parent()
time.sleep(0.3)
print("went on")
"""
    settings = {key: value for key, value in environment().items() if key != parent_watch.STARTER}
    found = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps({}),
        env=settings,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout == "went on\n"


def test_the_watcher_is_gone_when_the_child_has_ended_well():
    code = """
import json, os
from tfperf.measure import parent_watch
parent_watch.read_request()
parent_watch.watch_parent()
print(json.dumps({"watcher": open(f"/proc/self/task/{os.getpid()}/children").read().split()}))
"""
    found = run_subprocess([sys.executable, "-c", code], {}, lambda: False)
    assert found is not None
    (watcher,) = found["watcher"]
    assert not os.path.exists(f"/proc/{watcher}"), "not even as a zombie"
