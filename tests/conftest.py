"""No test reads or writes the user's cache; what the tests of several rooms use."""

import gc
import signal
from pathlib import Path

import pytest

from tfperf.data.cache import VARIABLE

TESTS = Path(__file__).parent
LONG = ("train", "place", "workloads", "runs", "trace", "study", "api", "stores", "zoo")  # rooms whose tests train

if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # as under nohup; tests send it
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def cache_of_this_session(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(tmp_path_factory.mktemp("cache")))
        yield


def pytest_collection_modifyitems(items):
    """Files of long tests go first, so that processes which share the files end at about the same time."""
    items.sort(key=lambda item: LONG.index(room) if (room := item.path.relative_to(TESTS).parts[0]) in LONG else 99)


def pytest_collection_finish():
    """What was imported stays: Python's collector, which fits have look through it again and again, leaves it out."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)  # memory is plenty


def shorten_fits(patch):
    """Leave out what takes half the time of a short fit."""
    from tfperf.train import choosing
    from tfperf.workloads.pdf.report import pool

    patch.setattr(choosing, "TIMING_SECONDS", 0.01)
    patch.setattr(pool, "draw", lambda result, picture: b"")
    patch.setattr(pool, "MOST", 0)


@pytest.fixture
def blank_pictures(monkeypatch):
    """Fits that time steps for a moment and whose reports have no pictures; tests/workloads/pdf/report draws them."""
    shorten_fits(monkeypatch)


@pytest.fixture(scope="module")
def blank_pictures_of_module():
    """The same for fits that tests of a file share."""
    with pytest.MonkeyPatch.context() as patch:
        shorten_fits(patch)
        yield


@pytest.fixture
def brief_fits(monkeypatch):
    """Fits of Keras models that time a step for a moment and draw no curves; tests/zoo and tests/report do."""
    from tfperf.workloads.keras import comparison, page

    monkeypatch.setattr(comparison, "TIMING_SECONDS", 0.01)
    monkeypatch.setattr(page, "draw_curves", lambda history: None)
    monkeypatch.setattr(page, "to_png", lambda figure: b"")
