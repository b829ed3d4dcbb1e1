"""Programs of tests/place/child.py, alone and as the workers of a cluster."""

import json
import os
import signal
import socket
import subprocess
import sys

from tests.runcard.cards import ROOT
from tfperf.study.child import ATTEMPTS

COMMAND, CHEATING = ([sys.executable, "-m", f"tests.place.{name}"] for name in ("child", "cheats"))


def carry_out(folder, cards, command=COMMAND):
    """Carry out cards, overrides by name, in one program."""
    done = subprocess.run([*command, str(folder)], input=json.dumps(cards), text=True, capture_output=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]


def carry_out_on_workers(folder, cards, count, attempts=ATTEMPTS):
    """The same by a cluster of so many programs; the folder of each.

    Where TensorFlow's profiler destroys the heap of one (study/child.py), it is all done again, as a sweep does it.
    """
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    folders = [folder / f"worker_{k}" for k in range(count)]
    workers = []
    for k, own in enumerate(folders):
        own.mkdir(exist_ok=True)
        task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": k}}
        settings = os.environ | {"TF_CONFIG": json.dumps(task)}
        worker = subprocess.Popen([*COMMAND, str(own)], stdin=subprocess.PIPE, text=True, cwd=ROOT, env=settings)
        workers.append(worker)
        assert worker.stdin is not None
        worker.stdin.write(json.dumps(cards))
        worker.stdin.close()
    codes = [worker.wait(1200) for worker in workers]
    if {-signal.SIGABRT, -signal.SIGBUS, -signal.SIGSEGV} & set(codes) and attempts > 1:
        return carry_out_on_workers(folder, cards, count, attempts - 1)
    assert codes == [0] * count, codes
    return folders
