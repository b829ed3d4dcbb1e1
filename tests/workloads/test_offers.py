"""What a workload of another package may bring beside its training: switches, an example, checks, verbs of its own."""

import json
from functools import partial

import pytest

from tests.workloads.packages import ROOT, call, install, run

MORE = '''
from typing import Literal

import click
from pydantic import Field
from pydantic.dataclasses import dataclass

from tfperf.measure.doctor import DoctorCheck
from tfperf.runcard.example import format_example
from tfperf.runcard.kinds import CardKind
from tfperf.runcard.schema import Grammar
from tfperf.runcard.types import STRICT, Step
from tfperf.workloads.switches import Switch, Switches
from tfperf_toy import Toy, ToyCard

SWITCHES = (
    Switch("together", "many steps in one call", {"together": 1}),
    Switch("rate", "longer steps", {"rate": 0.5}, changes_results=True),
)

@dataclass(frozen=True, kw_only=True, config=STRICT)
class MoreCard(ToyCard):
    workload: Literal["more"] = Field(description="what kind of card this is")
    together: Step = Field(default=10, description="steps of a call")

@click.command()
@click.argument("run")
def tell(run):
    """Tell of RUN."""
    click.echo(f"of {run}")

class More(Toy):
    name = "more"
    kind = CardKind(Grammar(MoreCard), required={("steps",): 1})

    def make_switches(self, card):
        return Switches(SWITCHES, setting="1000 numbers")

    def measure_variant(self, card, request):
        ms = 0.5 if card.together > 1 else 4.0
        found = {"ms_per_step": {"median": ms, "q1": ms, "q3": ms}, "steps_per_call": card.together}
        return found | {"peak_rss_bytes": 1e8, "losses": {"loss": [card.rate]}}

    def make_example(self, data):
        return format_example(self.kind.grammar, {"workload": "more", "steps": 30, "title": str(data)}, ())

    def list_checks(self):
        return [DoctorCheck("abacus", "missing", "none here", "buy one", needed=True)]

    def list_commands(self):
        return [tell]

WORKLOAD = More()
'''
CARD = "workload: more\nsteps: 200\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    toy = (ROOT / "tests" / "workloads" / "toy" / "tfperf_toy.py").read_text()
    install(folder, "tfperf-more", {"more": "tfperf_more:WORKLOAD"}, tfperf_toy=toy, tfperf_more=MORE)
    return folder


@pytest.fixture
def tfperf(site, tmp_path):
    (tmp_path / "card.yaml").write_text(CARD)
    return partial(call, site, tmp_path)


def test_its_switches_are_priced_one_at_a_time(tfperf, tmp_path):
    said = tfperf("ablate", "card.yaml", "-o", "out", "-q")
    assert "ablation, 1000 numbers" in said and "plain" in said and "naive" not in said
    report = json.loads((tmp_path / "out" / "ablation.json").read_text())
    assert [entry["name"] for entry in report["series"]] == ["plain", "together", "rate"]
    assert [entry["speedup_cumulative"] for entry in report["series"]] == [None, 8.0, 8.0]
    assert report["agree"] and (tmp_path / "out" / "ablation.png").is_file()
    # what is computed differs with `rate`, so each is compared with the plain variant that has the same
    assert set(report["trials"]) == {"full", "without together, rate", "without rate", "without together"}
    assert "has no replicas" in tfperf("ablate", "card.yaml", "-o", "other", "--replicas", "3", code=2)


def test_its_example_is_a_card(tfperf, tmp_path):
    tfperf("init", "mine.yaml", "--workload", "more", "--data", "d.csv")
    assert "title: d.csv" in (tmp_path / "mine.yaml").read_text()
    assert "steps       30" in tfperf("check", "mine.yaml")


def test_its_verbs_stand_under_its_name(tfperf):
    assert "of here" in tfperf("more", "tell", "here")
    assert "Tell of RUN" in tfperf("more", "--help") and "  more " not in tfperf("--help")
    assert "No such command 'poor'" in tfperf("poor", "tell", code=2)


@pytest.mark.parametrize("name", ["pdf", "translate"])
def test_a_name_of_tfperfs_own_is_no_verb(tfperf, name):
    assert f"No such command '{name}'" in tfperf(name, "tell", code=2)


def test_what_it_needs_is_told_by_name_and_keeps_nothing_from_running(site, tmp_path):
    lines = run(site, tmp_path, "doctor").splitlines()
    assert "ok       workload more: of tfperf-more (tfperf_more:WORKLOAD)" in lines
    assert "missing  more: abacus: none here; buy one" in lines
    assert {"ok       workload pdf: of tfperf", "ok       workload translate: of tfperf"} < set(lines)
    assert any(line.split()[1:3] == ["pdf:", "pineappl:"] for line in lines)
    assert any(line.split()[1:3] == ["translate:", "tokenizers:"] for line in lines)
