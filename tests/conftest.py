"""No test reads or writes the user's cache."""

import pytest

from tfperf.data.cache import VARIABLE


@pytest.fixture(scope="session", autouse=True)
def cache_of_this_session(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(tmp_path_factory.mktemp("cache")))
        yield
