"""Files and names that docs/, README.md and CONTRIBUTING.md mention exist; the glossary has the shared classes."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
BASES = (ROOT, ROOT / "tfperf", ROOT / "tfperf" / "workloads" / "pdf")
FILE = re.compile(r"(?<![\w/.*])((?:[\w.-]+/)*\w+\.py)\b")
MEMBER = re.compile(r"`((?:[\w.-]+/)*\w+\.py): ([A-Za-z_][\w.]*)")


def find_files(name):
    """Files of a path relative to one of the bases; of a bare name all that are called so."""
    found = [base / name for base in BASES if (base / name).is_file()]
    if not found and "/" not in name:
        found = [path for room in ("tfperf", "tests", "benchmarks") for path in (ROOT / room).rglob(name)]
    return found


@cache
def read_names(path):
    """All that a file defines or assigns: functions, classes, their members, constants."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.FunctionDef() | ast.ClassDef():
                names.add(node.name)
            case ast.Name(ctx=ast.Store()):
                names.add(node.id)
            case ast.Attribute(ctx=ast.Store()):
                names.add(node.attr)
            case ast.alias():
                names.add((node.asname or node.name).rpartition(".")[2])
    return names


def test_there_are_pages():
    assert {path.stem for path in PAGES} >= {"architecture", "folding", "glossary", "upgrading"}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_files_and_names_of_a_page_exist(page):
    text = page.read_text(encoding="utf-8")
    missing = [name for name in sorted(set(FILE.findall(text))) if not find_files(name)]
    for name, member in sorted(set(MEMBER.findall(text))):
        known = set().union(*map(read_names, find_files(name)))
        missing += [f"{name}: {member}" for part in member.rstrip(".").split(".") if part not in known]
    assert not missing, "\n".join(missing)


def test_links_of_a_page_lead_to_files():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)[^):]*\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def room_of(path):
    parts = path.relative_to(ROOT / "tfperf").parts
    return "/".join(parts[: 2 if parts[0] == "workloads" and len(parts) > 2 else 1])


def list_shared_classes():
    """Classes that are imported in another room than their own."""
    classes, shared = {}, set()
    every = {path: ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "tfperf").rglob("*.py")}
    for path, tree in every.items():
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        classes |= {(module, node.name): room_of(path) for node in tree.body if isinstance(node, ast.ClassDef)}
    for path, tree in every.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                keys = [(node.module, one.name) for one in node.names]
                shared |= {
                    name for key in keys if (name := key[1]) and classes.get(key, room_of(path)) != room_of(path)
                }
    return shared


def test_the_glossary_has_each_class_of_several_rooms():
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    terms = {word for row in re.findall(r"^\| ([^|]+) \|", text, re.M) for word in re.findall(r"`(\w+)`", row)}
    shared = list_shared_classes()
    assert len(shared) > 80 and not shared - terms, sorted(shared - terms)


def list_terms():
    """Each term of the glossary; a row may have several, as a word and its class."""
    rows = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.M)[1:]
    return [term for row in rows for term in row.split(", ")]


def test_the_glossary_has_each_term_once_and_with_one_meaning():
    terms = list_terms()
    assert len(terms) > 300 and len(set(terms)) == len(terms)
    assert "senses" not in (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")


def test_classes_of_the_glossary_exist():
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "tfperf").rglob("*.py")]
    classes = {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    named = {term.strip("`") for term in list_terms() if re.fullmatch(r"`[A-Z]\w*[a-z]\w*`", term)}
    assert len(named) > 100 and not named - classes, sorted(named - classes)
