"""Entries of the cache are made again when a module changes that their maker imports."""

import importlib
import sys

import pytest

from tfperf.data.cache import VARIABLE, Cache, digest_code
from tfperf.data.sources import list_source_files

FILES = {
    "__init__.py": "",
    "maker.py": "from .inner import (\n    one,  # a function\n    deep as d,\n)\n\n"
    "def make():\n    import package_of_test.late\n    return 1\n",
    "late.py": "import package_of_test.plain as p, os\n",
    "plain.py": "", "apart.py": "import package_of_test.maker\n",
    "inner/__init__.py": "from ..up import x\ndef one(): pass\n", "inner/deep.py": "from . import beside\n",
    "inner/beside.py": "from tfperf import errors\n", "up.py": "x = 1\n",
}  # fmt: skip
NAME = "package_of_test"


@pytest.fixture
def maker(tmp_path, monkeypatch):
    for name, text in FILES.items():
        path = tmp_path / NAME / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    importlib.invalidate_caches()
    yield importlib.import_module(f"{NAME}.maker")
    for name in [name for name in sys.modules if name.partition(".")[0] == NAME]:
        del sys.modules[name]
    forget()


def forget():
    """What a process has read, another reads again."""
    from tfperf.data.sources import _list_imports

    digest_code.cache_clear()
    _list_imports.cache_clear()


def test_all_that_a_module_imports_is_found(maker):
    found = list_source_files(maker.__name__)
    ours = {name.removeprefix(NAME) for name in found if name.startswith(NAME)}
    assert ours == {"", ".maker", ".late", ".plain", ".inner", ".inner.deep", ".inner.beside", ".up"}
    assert {"tfperf", "tfperf.errors"} <= set(found) and "tfperf.data.cache" not in found


@pytest.mark.parametrize("name", [name for name in FILES if name != "apart.py"])
def test_an_edit_of_any_of_them_makes_the_entry_again(maker, tmp_path, name):
    calls = []

    def make():
        calls.append(1)
        return 1

    make.__module__ = maker.__name__
    Cache(True).get("a", "key", make)
    forget()
    Cache(True).get("a", "key", make)
    assert len(calls) == 1
    with (tmp_path / NAME / name).open("a") as file:
        file.write("# changed\n")
    forget()
    Cache(True).get("a", "key", make)
    assert len(calls) == 2


def test_an_edit_of_what_it_does_not_import_leaves_the_entry(maker, tmp_path):
    before = digest_code(maker.__name__)
    (tmp_path / NAME / "apart.py").write_text("# changed\n")
    forget()
    assert digest_code(maker.__name__) == before


def test_makers_of_operators_are_followed_to_what_they_compute_with():
    found = list_source_files("tfperf.workloads.pdf.operators.problem")
    assert {"tfperf.workloads.pdf.operators.products", "tfperf.workloads.pdf.data.pack"} <= set(found)
    assert not {"tfperf.cli", "tfperf.workloads.pdf.job", "numpy"} & set(found)


def test_a_module_that_is_no_file_has_none():
    assert all(name.startswith("tfperf") for name in list_source_files("__main__"))
