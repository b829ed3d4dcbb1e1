"""Stands for study/input_trial.py: a loader whose costs are known, and trials that end in other ways.

The card's title says how: "fault N", "kill N", "hang N" end so in the trial with N workers of a sweep (or "as it is").
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

from tfperf.measure import parent_watch

CPU, WAIT = 0.001, 0.079  # s of a batch


def measure(workers):
    """Batches/s and what belongs to them, of workers that wait."""
    rate = workers / (CPU + WAIT)
    return {"workers": workers, "rate": {"value": rate, "low": 0.99 * rate, "high": 1.01 * rate},
            "usual": rate, "processor_seconds": CPU, "ram": 500_000_000 + 3_000_000 * workers}  # fmt: skip


def end(how):
    if how == "kill":  # this process, and who asked, as the system does when it is short of memory
        os.kill(os.getppid(), signal.SIGKILL)
    if how == "stop":
        os.kill(os.getppid(), signal.SIGINT)
    if how in ("hang", "kill", "stop"):
        time.sleep(60)
    raise ValueError("the data are wrong")


def main():
    request = parent_watch.read_request()
    parent_watch.watch_parent()
    folder = Path(os.environ["FAKE_INPUT"])  # has records of cards as they are, by title
    asked = folder / "asked.txt"
    with open(asked, "a") as file:
        file.write(f"{request['workers']}\n")
    done = asked.read_text().split()
    how, _, where = request["card"]["title"].partition(" at ")
    if how == "refuse":
        print(json.dumps({"refused": ["made up"]}))
        return
    if where and len(done) == int(where):
        end(how)
    as_it_is = folder / ("arrays.json" if how == "arrays" else "waiting.json")
    print(as_it_is.read_text() if request["workers"] is None else json.dumps(measure(request["workers"])))


if __name__ == "__main__":
    main()
    sys.exit(0)
