"""What files of code say without being run."""

import pytest

from tfperf.sources.code import CodeReference
from tfperf.sources.code_text import describe_missing, list_code_files


@pytest.fixture
def folder(tmp_path):
    for name, text in {
        "nets.py": "import numpy, parts.deep.leaf\nfrom parts import blocks\nimport keras\nraise SystemExit",
        "parts/__init__.py": "", "parts/blocks.py": "def make():\n    from . import late\n    from ..other import far",
        "parts/late.py": "import nets", "parts/deep/leaf.py": "", "other.py": "", "unused.py": "",
        "broken.py": "import other\ndef build(:",
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_imports_are_followed_through_packages_and_functions(folder):
    found = list_code_files(CodeReference(str(folder / "nets.py"), "build"))
    assert {*found} == {"", "parts/__init__.py", "parts/blocks.py", "parts/late.py", "parts/deep/leaf.py", "other.py"}
    assert found[""] == folder / "nets.py"


def test_packages_without_a_file_of_their_own_are_gone_through(folder, monkeypatch):
    (folder / "parts" / "__init__.py").unlink()
    monkeypatch.syspath_prepend(str(folder))
    assert list_code_files(CodeReference("parts.deep.leaf", "make")) == {"": folder / "parts" / "deep" / "leaf.py"}
    assert list_code_files(CodeReference("parts.deep.none", "make")) == {}


def test_modules_on_the_path_are_found_and_packages_that_are_installed_left_out(folder, monkeypatch):
    monkeypatch.syspath_prepend(str(folder))
    found = {*list_code_files(CodeReference("parts.blocks", "make"))}
    assert found == {"", "parts/__init__.py", "parts/late.py", "nets.py", "parts/deep/leaf.py", "other.py"}
    assert list_code_files(CodeReference("keras.applications", "ResNet50")) == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def bild(): pass\nclass Net: pass", "nets.py has no build; its functions: bild$"),
        ("x = 1\ndef build(:", "nets.py, line 2: "),
        ("import os", "functions: none"),
    ],
)
def test_missing_functions_are_told(folder, text, said):
    (folder / "nets.py").write_text(text)
    with pytest.raises(AssertionError, match=said):
        raise AssertionError(describe_missing(CodeReference(str(folder / "nets.py"), "build")))


@pytest.mark.parametrize(
    "text",
    ["def build(): pass", "build = 3", "from a import build", "import x as build", "from a import *",
     "if 1:\n    def build(): pass", "globals()['build'] = 1", "def __getattr__(name): pass", "class build: pass"],
)  # fmt: skip
def test_names_that_may_be_there_are_left_to_the_import(folder, text):
    (folder / "nets.py").write_text(text)
    assert describe_missing(CodeReference(str(folder / "nets.py"), "build")) is None
