"""Packages whose workloads are broken: its own cards and verbs tell so, in one line, and no others."""

import signal
from functools import partial

import pytest

from tests.workloads.packages import ROOT, call, install, run
from tfperf.errors import CardError, Interrupted
from tfperf.signals import Signals
from tfperf.workloads.registry import convert_errors

ODD = "to y.\N{GREEK SMALL LETTER MU}"
LATER = "from tfperf_toy import Toy\n\nclass Later(Toy):\n    protocol, name = 2, 'later'\n\nWORKLOAD = Later()\n"
OTHER = "from tfperf_toy import Toy\n\nclass Other(Toy):\n    name = 'twin'\n\nWORKLOAD = Other()\n"
RAISING = {
    "raises": "raise RuntimeError('no licence\\nfound')\n", "leaves": "import sys\nsys.exit(7)\n", "typo": "def f(:\n",
}  # fmt: skip
UNREADY = """
from tfperf_toy import Toy

class Unready(Toy):
    name = "unready"

    def list_checks(self):
        raise OSError("no such file")

WORKLOAD = Unready()
"""
KINDLESS = """
from tfperf_toy import Toy

class Kindless(Toy):
    name = "kindless"
    kind = property(lambda self: {}["card"])

WORKLOAD = Kindless()
"""
ODD_KIND = KINDLESS.replace("Kindless", "OddKind").replace("kindless", "oddkind").replace('{}["card"]', "3")
VERBLESS = """
import click
from tfperf_toy import Toy

class Verbless(Toy):
    name = "NAME"

    def list_commands(self):
        DO

WORKLOAD = Verbless()
"""
VERBS = {
    "verbless": VERBLESS.replace("NAME", "verbless").replace("DO", "raise SystemExit(0)"),
    "doubled": VERBLESS.replace("NAME", "doubled").replace(
        "DO", "return [click.Command('tell'), click.Command('tell')]"
    ),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    toy = (ROOT / "tests" / "workloads" / "toy" / "tfperf_toy.py").read_text()
    modules = {"tfperf_toy": toy, "later": LATER, "twin": OTHER, "unready": UNREADY, **RAISING, **VERBS}
    modules |= {"kindless": KINDLESS, "oddkind": ODD_KIND}
    names = [*RAISING, *VERBS, "later", "unready", "kindless", "oddkind"]
    install(folder, "breaker", {name: f"{name}:WORKLOAD" for name in names}, **modules)
    install(folder, "first-twin", {"twin": "twin:WORKLOAD", "toy": "tfperf_toy:WORKLOAD"})
    install(folder, "second-twin", {"twin": "tfperf_toy:WORKLOAD"})
    install(folder, "usurper", {"pdf": "tfperf_toy:WORKLOAD", "renamed": "tfperf_toy:WORKLOAD"})
    install(folder, "odd-one", {ODD: "tfperf_toy:WORKLOAD", "x" * 65: "tfperf_toy:WORKLOAD"})
    return folder


@pytest.fixture
def tfperf(site, tmp_path):
    return partial(call, site, tmp_path)


@pytest.fixture(scope="module")
def checks(site):
    """What `tfperf doctor` prints, line by line."""
    return run(site, site, "doctor").splitlines()


def test_one_that_ends_python_ends_no_process(site, tmp_path):
    (tmp_path / "card.yaml").write_text("workload: leaves\nsteps: 1\n")
    said = run(site, tmp_path, "check", "card.yaml", code=2).splitlines()
    (line,) = [line for line in said if line.startswith("error: ")]
    assert CASES["leaves"][1] in line


CASES = {
    "raises": ("breaker", "cannot be loaded: RuntimeError: no licence found"),
    "leaves": ("breaker", "cannot be loaded: SystemExit: 7"),
    "typo": ("breaker", "cannot be loaded: SyntaxError"),
    "later": ("breaker", "is written for protocol 2; this tfperf has 1"),
    "kindless": ("breaker", "its kind cannot be made: KeyError: 'card'"),
    "oddkind": ("breaker", "its kind is a int; must be a tfperf.runcard.kinds.CardKind"),
    "twin": ("first-twin (twin:WORKLOAD) and second-twin (tfperf_toy:WORKLOAD)", "offered 2 times"),
    "renamed": ("usurper", "calls itself 'toy'; both names must be the same"),
    ODD: ("odd-one", "is no name; must be a letter"),
    "x" * 65: ("odd-one", "is no name; must be a letter"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "words"),
    {"verbless": "its verbs cannot be made: SystemExit: 0", "doubled": "has the verb tell twice"}.items(),
)
def test_verbs_that_cannot_be_made_are_told(tfperf, checks, name, words):
    assert words in tfperf(name, "tell", code=2) and "steps" in tfperf("schema", name)
    (line,) = [line for line in checks if f" {name}: " in line]
    assert line.startswith("warning") and words.split(": ")[-1] in line


@pytest.mark.parametrize("name", CASES, ids=[*list(CASES)[:-2], "odd", "long"])
def test_its_own_cards_tell_what_is_wrong_with_it(tfperf, tmp_path, name):
    (tmp_path / "card.yaml").write_text(f'workload: "{name}"\nsteps: 1\n')
    package, words = CASES[name]
    for arguments in (("check", "card.yaml"), ("fit", "card.yaml", "-o", "run"), ("schema", name)):
        said = tfperf(*arguments, code=2)
        assert package in said and words in said and "Traceback" not in said
        assert sum(line.startswith("error: ") for line in said.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_all_others_work_beside_them(tfperf, tmp_path):
    (tmp_path / "card.yaml").write_text("workload: toy\nsteps: 20\n")
    assert "loss" in tfperf("fit", "card.yaml", "-o", "run")
    assert "positivity" in tfperf("schema", "pdf"), "a name of tfperf's own is its own"
    assert "--workload" in tfperf("init", "--help") and "Commands:" in tfperf("--help")
    tfperf("init", "example.yaml")
    assert "workload: pdf" in (tmp_path / "example.yaml").read_text()
    assert "cannot be loaded" in tfperf("raises", "tell", code=2), "a verb under its name"


def test_the_doctor_lists_them(checks):
    lines = [line for line in checks if "workload" in line]
    assert "ok       workload toy: of first-twin (tfperf_toy:WORKLOAD)" in lines
    for name, (package, words) in CASES.items():
        (line,) = [one for one in lines if one.startswith(f"missing  workload {name}: ")]
        assert package in line and words in line and line.endswith("mend the package that offers it, or remove it")
    (unready,) = [one for one in lines if " unready: " in one]
    assert unready.startswith("warning ") and "OSError: no such file" in unready
    (taken,) = [one for one in lines if "usurper (tfperf_toy:WORKLOAD): has the name" in one]
    assert taken.startswith("warning  workload pdf, of")


@pytest.mark.parametrize("raised", [OSError, SystemExit, GeneratorExit])
def test_what_a_package_raises_is_an_error_of_its_card(raised):
    with pytest.raises(CardError, match="of it: cannot be loaded"), convert_errors("of it: cannot be loaded"):
        raise raised


def test_a_signal_while_a_package_loads_ends_the_command_as_a_signal():
    with pytest.raises(Interrupted), Signals().listen(), convert_errors("of it: cannot be loaded"):
        signal.raise_signal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), convert_errors("of it: cannot be loaded"):
        raise KeyboardInterrupt
