"""Stands for study/point.py: does what the title of the card says, in a moment."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tfperf.measure import parent_watch


def record(milliseconds):
    times = [milliseconds, 0.9 * milliseconds, 1.1 * milliseconds]
    return {
        "ms_per_step": dict(zip(("median", "q1", "q3"), times, strict=True)), "samples_ms": times,
        "threads": os.environ.get("OMP_NUM_THREADS"), "environment": sorted(k for k in os.environ if "TFPERF_ST" in k),
    }  # fmt: skip


def note(folder, text):
    """A line for the test to read; the folder of all trials is the same for all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "notes.txt", "a") as file:
        file.write(text + "\n")


def hang(notes):
    """With a child of its own, which hangs too."""
    grandchild = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
    note(notes, f"pids {os.getpid()} {grandchild.pid}")
    time.sleep(600)


def main():
    request = parent_watch.read_request()
    parent_watch.watch_parent()
    what, _, number = request["card"]["title"].partition(" ")
    notes = Path(request["folder"]).parent
    note(
        notes, f"asked {what} {Path(request['folder']).name} {request['warmup']} {request['steps']} {request['first']}"
    )
    if what == "hang":
        hang(notes)
    if what == "die":
        raise ValueError("boom")
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "kill_worker":
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(600)
    if what == "refuse":
        print(json.dumps({"refused": ["not that"]}))
    elif what == "unproved":
        print(json.dumps(record(2.0) | {"unproved": ["update of a: ran on CPU:0", "b: is on CPU:1"]}))
    elif what == "empty":
        print(json.dumps({"samples_ms": []}))
    else:
        time.sleep(float(number or 0))
        print(json.dumps(record(2.0)))


main()
