"""Examples in docstrings: what they show is what comes out."""

import ast
import doctest
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PROMPT = ">>> "
PARSER = doctest.DocTestParser()


def read_docstrings(path: Path) -> Iterator[tuple[str, int, str]]:
    """Name, line and text of each docstring with an example; of decorated functions, too, unlike `doctest`'s finder."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            text = ast.get_docstring(node) or ""
            if PROMPT in text:
                yield getattr(node, "name", path.stem), node.body[0].lineno, text


def list_modules() -> Iterator[Any]:
    for path in sorted((ROOT / "tfperf").rglob("*.py")):
        if PROMPT in path.read_text(encoding="utf-8"):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            yield pytest.param(name, path, id=name)


@pytest.mark.parametrize(("name", "path"), list(list_modules()))
def test_examples_of_a_module_are_true(name: str, path: Path) -> None:
    module = import_module(name)
    said: list[str] = []
    for owner, line, text in read_docstrings(path):
        example = PARSER.get_doctest(text, vars(module).copy(), owner, str(path), line)
        doctest.DocTestRunner().run(example, out=said.append)
    assert not said, "".join(said)


def test_there_are_examples_and_each_is_found() -> None:
    paths = [one.values[1] for one in list_modules()]
    written = sum(path.read_text(encoding="utf-8").count(PROMPT) for path in paths)
    parsed = [PARSER.get_examples(text) for path in paths for _, _, text in read_docstrings(path)]
    assert len(parsed) >= 60 and sum(map(len, parsed)) == written
