import pytest

from tests.fuzz.attack import Worker


@pytest.fixture(scope="session")
def worker():
    one = Worker()
    yield one
    one.close()
