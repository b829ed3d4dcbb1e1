"""Stands for study/memory_trial.py: a device whose peaks are known, and programs that end in other ways."""

import ctypes
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from tfperf.measure import parent_watch

FIXED, EACH, OPTIMIZER = 40e6, 1.5e6, 90e6


LENGTHS = (20, 40, 90)  # of a program whose title begins with "padded"


def compute_peak(batch, length=None):
    each = EACH if length is None else 2e4 + 3e3 * length + 50 * length**2
    return max(OPTIMIZER, FIXED + each * batch)


def measure(batch, length):
    peak = int(compute_peak(batch, length))
    return {"batch": batch, "least": peak, "most": peak, "ram_peak": int(8e8 + 1e6 * batch),
            "seconds_per_step": 1e-3 * (4 + batch / 10)}  # fmt: skip


def is_last(batch, length, request):
    """Whether a process begins no batch above this one: by the rule of real trials, whose import takes longest here."""
    if request["share"] is None:
        return True
    from tfperf.workloads.memory_trial import compute_bound

    bound = compute_bound(compute_peak(8, length), request["limit"], request["share"])
    return compute_peak(2 * batch, length) > bound


def end(how, folder):
    """As a planted fault ends; each is a real one, but for the kill, which the system itself does not carry out."""
    if how == "crash":
        ctypes.string_at(0)
    if how == "oom":
        events = folder / "group" / "memory.events"
        events.write_text(f"oom_kill {int(events.read_text().split()[1]) + 1}\n")
    if how in ("kill", "oom"):
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "hang":
        time.sleep(600)
    if how == "memory":
        bytearray(1 << 62)
    raise ValueError("the model is wrong")


def main():
    request = parent_watch.read_request()
    parent_watch.watch_parent()
    how, _, most = request["card"]["title"].partition(" ")
    if how == "refuse":
        print(json.dumps({"refused": ["made up"]}))
        return
    folder = Path(request["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / "asked.txt", "a") as file:
        file.write(f"{request['batch']}\n")
    batch, found, length = request["batch"], [], None
    record: dict[str, Any] = {}
    if how == "padded":
        record, length = {"lengths": LENGTHS}, request["length"] or LENGTHS[-1]
    while True:
        if batch > int(most or 10**9):
            end(how, folder.parents[2])
        if compute_peak(batch, length) > request["limit"]:
            record["exhausted"] = {"batch": batch, "why": "made up"}
            break
        found.append(measure(batch, length))
        with open(folder / "batches.jsonl", "a") as file:
            file.write(json.dumps(found[-1]) + "\n")
        if is_last(batch, length, request):
            break
        batch *= 2
    print(json.dumps({"stages": [], "batches": found, **record}))


if __name__ == "__main__":
    main()
    sys.exit(0)
