"""What README.md, CONTRIBUTING.md and docs/ say of exit codes, verbs, options, keys and rooms is so in the program."""

import ast
import configparser
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from tests.test_docs import read_names
from tfperf.cli import main
from tfperf.errors import describe_exit_codes
from tfperf.runcard.schema import list_alternatives, list_choices
from tfperf.workloads.registry import OWN, WORKLOADS
from tfperf.workloads.workload import METHODS

ROOT = Path(__file__).parents[1]
PAGES = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "data/README.md")), *sorted(ROOT.glob("docs/*.md"))]
TEXTS = {page.name if page.parent != ROOT / "data" else "data": page.read_text(encoding="utf-8") for page in PAGES}
README, CONTRIBUTING = TEXTS["README.md"], TEXTS["CONTRIBUTING.md"]
CONTEXT = click.Context(main, info_name="tfperf")
KEY = re.compile(r"`(?:--set )?([a-z]\w*(?:\.\w+)+)(?:(?:=|: )([\w.-]+))?(?=[` :=])")
FILES = ("py", "json", "yaml", "h5", "html", "keras")


def squeeze(text: str) -> str:
    return "".join(text.split())


def get_command(verb: str) -> click.Command:
    command = main.get_command(CONTEXT, verb)
    assert command is not None, f"no verb {verb}"
    return command


def list_options(verb: str) -> set[str]:
    return {one for parameter in get_command(verb).params for one in (*parameter.opts, *parameter.secondary_opts)}


# exit codes


def test_readme_and_help_tell_the_exit_codes_in_the_same_words() -> None:
    sentence = squeeze(describe_exit_codes())
    assert sentence in squeeze(README)
    assert sentence in squeeze(CliRunner().invoke(main, ["--help"]).output)


def test_the_command_line_ends_with_named_codes_alone() -> None:
    ends = []
    for path in (*sorted((ROOT / "tfperf" / "cli").glob("*.py")), ROOT / "tfperf" / "__main__.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "sys.exit":
                ends.append(node)
                values = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant)]
                assert not any(isinstance(value, int) for value in values), f"{path.name}:{node.lineno}"
    assert len(ends) > 5


def test_the_verbs_that_end_with_1_or_3_are_those_that_the_sentence_tells() -> None:
    ends: dict[str, set[str]] = {"AMISS": set(), "FAILED": set()}
    others = (ROOT / "tfperf" / "measure" / "doctor.py", ROOT / "tfperf" / "workloads" / "job.py")
    for path in (*sorted((ROOT / "tfperf" / "cli").glob("*.py")), *others):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(function, ast.FunctionDef):
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.Name) and node.id in ends:
                    ends[node.id].add(f"{path.stem}.{function.name}")
    assert ends == {"AMISS": {"studies.ablate", "studies.profile", "training.iterate", "doctor.main"},
                    "FAILED": {"job.exit_code", "studies.sweep"}}  # fmt: skip


# verbs and options


def read_verb_rows() -> list[tuple[list[str], str]]:
    """The verbs of each row of README's table, and all of the row."""
    section = README.partition("\n## Verbs\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`tfperf .*?) \| (.*) \|$", section, re.M)
    return [(re.findall(r"`tfperf ([\w-]+)", head), f"{head} {text}") for head, text in rows]


def test_the_table_of_verbs_is_that_of_the_command_line() -> None:
    told = [verb for verbs, _ in read_verb_rows() for verb in verbs]
    assert sorted(told) == main.list_commands(CONTEXT)


def test_options_stand_in_the_row_of_a_verb_that_has_them() -> None:
    rows = [(verbs, set(re.findall(r"(?<![\w-])--[a-z][\w-]*", row))) for verbs, row in read_verb_rows()]
    assert sum(len(options) for _, options in rows) > 5
    for verbs, options in rows:
        assert not options - set().union(*map(list_options, verbs)), verbs


def test_every_verb_that_reads_a_card_takes_set() -> None:
    reading = [verb for verb in main.list_commands(CONTEXT) if any(p.name == "card" for p in get_command(verb).params)]
    assert len(reading) > 4
    assert all("--set" in list_options(verb) for verb in {*reading, "profile"} - {"init"})


def test_the_table_of_what_a_workload_offers_has_each_verb_and_its_methods() -> None:
    rows = dict(re.findall(r"^ *\| (`\w.*?) \| (.*) \|$", CONTRIBUTING, re.M))
    for verb, methods in METHODS.items():
        (text,) = [text for head, text in rows.items() if f"`{verb}`" in head]
        assert verb in methods or all(f"`{name}`" in text or f"`{name}" in text for name in methods), verb


def test_names_in_contributing_exist() -> None:
    known = {"stateless_call", "slow", "logging", "getLogger"}  # Keras', pytest's, Python's
    for path in (ROOT / "tfperf").rglob("*.py"):
        known |= {path.stem, path.parent.name} | read_names(path)
    for code in re.findall(r"`([A-Za-z_][\w.]*)(?:\([^`]*\))?`", CONTRIBUTING):
        assert all(part in known for part in code.split(".")) or (ROOT / code).exists() or code.endswith(FILES), code


def list_code(text: str) -> Iterator[str]:
    """What stands between backticks in a line, and lines of indented code."""
    yield from re.findall(r"`([^`\n]+)`", text)
    yield from re.findall(r"^ {4,}(\S.*)$", text, re.M)


def list_commands() -> Iterator[Any]:
    for name, text in TEXTS.items():
        for code in dict.fromkeys(part.strip() for one in list_code(text) for part in one.split(" && ")):
            first, *words = code.split(" ", 2)
            if first.removeprefix(".venv/bin/") == "tfperf" and words and re.fullmatch("[a-z][a-z-]+", words[0]):
                yield pytest.param(code, id=f"{name}: {code}")


@pytest.mark.parametrize("code", list(list_commands()))
def test_commands_of_the_pages_are_understood(code: str) -> None:
    _, verb, *words = shlex.split(code)
    with suppress(click.MissingParameter):  # a verb is named, with what matters there
        get_command(verb).make_context(verb, list(words), parent=CONTEXT)
    for word in words:
        assert not word.startswith("runcards/") or (ROOT / word).is_file(), word


def test_there_are_commands() -> None:
    assert len(list(list_commands())) > 30


def test_benchmarks_and_tests_that_the_pages_name_exist() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in (ROOT / "benchmarks").rglob("*.py")}
    known = {name for text in sources.values() for name in re.findall(r'register_benchmark\(\s*"([\w-]+)"', text)}
    commands = [one for text in TEXTS.values() for one in re.findall(r"benchmarks run ([a-z][^`]*)`", text)]
    assert len(known) > 8 and len(commands) > 10
    for name, *words in map(str.split, commands):
        assert name in known, name
        for word in words:
            assert not word.startswith("-") or f'"{word}"' in sources[ROOT / "benchmarks" / "__main__.py"], word
    for path in re.findall(r"(?<![\w/.-])tests/[\w/.]*\w", README + CONTRIBUTING):
        assert (ROOT / path).exists(), path
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    for name in re.findall(r"`(test_\w+)`", "".join(TEXTS.values())):
        assert f"def {name}(" in tests, name


# keys of cards


def find_schemas(key: str) -> list[dict[str, Any]]:
    """What each workload's cards allow under a full key."""
    grammars = [WORKLOADS.get_kind(name).grammar for name in OWN]
    return [found for grammar in grammars if (found := grammar.get_schema(key.split(".")))]


def list_keys() -> Iterator[tuple[str, str, str]]:
    """Page, full key, and the value that is written with it, if any."""
    grammars = [WORKLOADS.get_kind(name).grammar for name in OWN]
    blocks = {key for grammar in grammars for key in grammar.list_keys(()) if grammar.list_keys((key,))}
    for name, text in TEXTS.items():
        for key, value in KEY.findall(text):
            if key.split(".")[0] in blocks and key.rpartition(".")[2] not in FILES:
                yield name, key, value


def test_keys_that_the_pages_write_exist_and_take_the_values_beside_them() -> None:
    found = set(list_keys())
    assert len({key for _, key, _ in found}) > 15 and sum(bool(value) for *_, value in found) > 5
    for name, key, value in found:
        schemas = find_schemas(key)
        assert schemas, f"{name}: {key}"
        branches = [branch for one in schemas for branch in list_alternatives(one) if branch.get("type") != "null"]
        words = [list_choices(branch) for branch in branches]
        assert not value or not all(words) or any(value in some for some in words), f"{name}: {key}: {value}"


def test_overrides_of_the_pages_name_keys() -> None:
    for name, text in TEXTS.items():
        for key in re.findall(r"--set ([\w.]+)=", text):
            assert key == "key.sub" or find_schemas(key), f"{name}: {key}"


def list_leaves(tree: Any, key: str = "") -> Iterator[str]:
    if isinstance(tree, dict):
        for name, value in tree.items():
            yield from list_leaves(value, f"{key}.{name}" if key else name)
    else:
        yield key


def test_blocks_of_yaml_in_the_readme_have_keys_of_cards() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", README, re.S)
    blocks += re.findall(r"`(\w+: \{[^`]*\})`", README)
    keys = [key for block in blocks for key in list_leaves(yaml.safe_load(block))]
    assert len(keys) > 5 and all(find_schemas(key) for key in keys), keys


def test_the_readme_names_what_runs_of_a_workload_have_of_their_own() -> None:
    for name in OWN:
        for file in WORKLOADS.get(name).own_files:
            assert f"`{file}`" in README, f"{name}: {file}"


# rooms


def split_layers(lines: list[str]) -> list[set[str]]:
    return [{one.strip().removeprefix("tfperf.") for one in line.split("|")} for line in lines if line.strip()]


def test_pages_name_the_rooms_in_the_order_of_the_contract() -> None:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    layers = split_layers(parser["importlinter:contract:house"]["layers"].split("\n"))
    line = re.search(r"`(cli \| api -> [^`]*)`", CONTRIBUTING)
    assert line is not None and split_layers(line[1].split("->")) == layers
    section = TEXTS["architecture.md"].partition("\n## Packages\n")[2].partition("\n## ")[0]
    assert split_layers(re.findall(r"^ {4}(?! )(\w+(?: \| \w+)*) ", section, re.M)) == layers
    rooms = {path.name for path in (ROOT / "tfperf").iterdir() if (path / "__init__.py").is_file()}
    assert rooms <= set().union(*layers)
