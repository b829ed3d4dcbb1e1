"""The thread that reads between stages, against figures that are counted by hand."""

import subprocess
import sys
import threading

from tfperf.measure.readings import PeriodicReader


class Figures:
    """1, 2, 3, ... as far as `most`; then it waits, so that no further reading is counted."""

    def __init__(self, most, broken=()):
        self.most, self.broken, self.count = most, broken, 0
        self.done, self.go_on = threading.Event(), threading.Event()

    def __call__(self):
        if self.count == self.most:
            self.done.set()
            self.go_on.wait(60)
        self.count += 1
        if self.count in self.broken:
            raise OSError("made up")
        words = frozenset({"even"} if self.count % 2 == 0 else ())
        return {"number": float(self.count), "rare": 7.0 if self.count == 2 else None, "never": None}, words


def take(figures):
    with PeriodicReader(figures, period=0) as reader:
        assert figures.done.wait(60)
        found = reader.take()
        figures.go_on.set()
        return found


def test_means_and_extremes_are_those_of_the_readings():
    assert take(Figures(5)) == {
        "readings": 5, "failed_readings": 0, "share_of_readings": {"even": 0.4},
        "figures": {
            "number": {"readings": 5, "mean_of_readings": 3.0, "lowest_reading": 1.0, "highest_reading": 5.0},
            "rare": {"readings": 1, "mean_of_readings": 7.0, "lowest_reading": 7.0, "highest_reading": 7.0},
            "never": None,
        },
    }  # fmt: skip


def test_a_reading_that_fails_is_counted_and_the_next_one_is_tried():
    found = take(Figures(5, broken=(1, 4)))
    assert found["readings"] == 3 and found["failed_readings"] == 2
    assert found["figures"]["number"]["mean_of_readings"] == (2 + 3 + 5) / 3


def test_what_was_taken_is_not_told_again():
    figures = Figures(2)
    with PeriodicReader(figures, period=0) as reader:
        assert figures.done.wait(60)
        reader.take()
        assert reader.take() == {"readings": 0, "failed_readings": 0, "figures": {}, "share_of_readings": {}}
        figures.go_on.set()


def test_it_is_stopped_with_its_thread():
    before = threading.active_count()
    with PeriodicReader(lambda: ({}, frozenset()), period=600):
        assert threading.active_count() == before + 1
    assert threading.active_count() == before


def test_a_program_that_does_not_stop_it_ends():
    code = """
from tfperf.measure.readings import PeriodicReader
PeriodicReader(lambda: ({}, frozenset()), period=600).__enter__()
print("end")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "end\n" and not done.stderr
