"""No test reads or writes the user's cache; what the tests of several rooms use."""

import signal

import pytest

from tfperf.data.cache import VARIABLE

if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # as under nohup; tests send it
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def cache_of_this_session(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def blank_pictures(monkeypatch):
    """Reports without what is drawn, which takes half the time of a short fit; tests/report looks at it."""
    from tfperf.report import style
    from tfperf.workloads.pdf.report import pool

    monkeypatch.setattr(style, "to_png", lambda figure: b"")
    monkeypatch.setattr(pool, "MOST", 0)
