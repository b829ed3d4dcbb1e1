"""Sweeps with made-up trials, for the small card."""

import os
import sys
import time
from contextlib import nullcontext
from pathlib import Path

from tests.make_pack import make_card
from tfperf.study.sweep import run_sweep

ROOT = Path(__file__).parents[2]
FAKE = (sys.executable, str(Path(__file__).parent / "fake_point.py"))
SWEEP = """\
sweep:
  keys: {{title: {titles}, replicas: {replicas}}}
  repeats: {repeats}
  timeout: {timeout}
  at_once: {at_once}
"""


def sweep_card(folder, titles=("a", "b"), replicas=(1,), repeats=2, timeout=60, at_once=1):
    """A card that sweeps titles, which tell the fake trials what to do."""
    text = SWEEP.format(titles=list(titles), replicas=list(replicas), repeats=repeats, timeout=timeout, at_once=at_once)
    return make_card(folder, extra=text)


def run(card, folder, overrides=(), **options):
    """The report of a sweep with fake trials, and what it showed."""
    shown = []
    options = {"command": FAKE} | options
    report = run_sweep(card, overrides, folder, lambda: nullcontext(lambda *event: shown.append(event)), **options)
    return report, shown


def notes(folder, word):
    """What the fake trials of a sweep wrote down."""
    path = folder / "trials" / "notes.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.split()[1:] for line in lines if line.split()[0] == word]


def wait_for(found, seconds=30.0):
    """Until something is there; returns it."""
    end = time.monotonic() + seconds
    while not (result := found()):
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)
    return result


def alive(pid):
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def environment():
    """For a sweep as a program."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}
