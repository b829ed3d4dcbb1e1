import pytest

from tests.fuzz.attack import Worker


@pytest.fixture(scope="session")
def process():
    one = Worker()
    yield one
    one.close()


@pytest.fixture
def worker(process):
    """The process that reads; `pytest -s` shows what the worst case of a test took."""
    process.worst = dict.fromkeys(process.worst, 0)
    yield process
    print(f"\nworst case: {process.worst['seconds']:.2f} CPU seconds, {process.worst['bytes'] / 1e6:.0f} MB")
