"""Trainings of both forms take seconds: of some files the first is quick enough for every run; the others are slow."""

from pathlib import Path

import pytest

QUICK = ("refused", "named", "some")  # in names of tests that train nothing, or few layers
QUICK_THROUGHOUT = ("test_probe.py",)
QUICK_FILES = ("test_dense.py", "test_operations.py", "test_clipping.py")


def pytest_collection_modifyitems(items):
    seen = set()
    for item in items:
        path = Path(item.path)
        quick = path.name in QUICK_THROUGHOUT or any(word in item.name for word in QUICK)
        if path.parent != Path(__file__).parent or quick:
            continue
        if path in seen or path.name not in QUICK_FILES:
            item.add_marker(pytest.mark.slow)
        seen.add(path)
