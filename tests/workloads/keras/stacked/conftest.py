"""Of each file the first training of both forms is quick enough for every run; the others are slow."""

from pathlib import Path

import pytest

QUICK = ("refused", "named")  # in names of tests that train nothing


def pytest_collection_modifyitems(items):
    seen = set()
    for item in items:
        path = Path(item.path)
        if path.parent != Path(__file__).parent or any(word in item.name for word in QUICK):
            continue
        if path in seen:
            item.add_marker(pytest.mark.slow)
        seen.add(path)
