"""Threads and stacks are shared out by a rule, or found together by trying them in children."""

import json
import sys
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest

from tests.make_pack import make_card
from tfperf.train.choices import CandidateTiming, Choices
from tfperf.train.cores import Cores, share_cores
from tfperf.workloads.pdf import cores
from tfperf.workloads.pdf import training as part
from tfperf.workloads.pdf.cards import load_card
from tfperf.workloads.pdf.forms import LAYOUTS, NAMES

pytestmark = pytest.mark.usefixtures("blank_pictures")


def test_threads_and_stacks_are_tried_together_in_children(tmp_path, monkeypatch):
    monkeypatch.setattr("tfperf.workloads.pdf.card_engine.count_cores", lambda: 4)
    asked, speed = [], {(4, 4): 2.0, (4, 2): 2.1, (4, 1): 3.0, (2, 4): 1.5, (2, 2): 1.0, (2, 1): 1.5, (1, 4): 2.0,
                        (1, 2): 2.0, (1, 1): 1.02}  # fmt: skip

    def ask(card, overrides, end):
        asked.append(overrides)
        stacks, number = (int(one.partition("=")[2]) for one in overrides[-2:])
        trial = CandidateTiming("folded", "joined", True, 1.0, 0.5)
        used = Choices(
            form="folded", products="joined", xla=True, losses_xla=False, steps_per_call=10, threads=number,
            cpu_stacks=stacks, tried=(trial,),
        )  # fmt: skip
        return used, speed[number, stacks]

    monkeypatch.setattr(cores, "_ask", ask)
    card = load_card(make_card(tmp_path))
    found = cores.measure_cores(tmp_path / "card.yaml", card.engine, 30)
    assert found is not None
    assert found.cores == Cores(1, 1), "as fast as two, to the noise"
    assert found.cores_tried == tuple((*pair, ms) for pair, ms in sorted(speed.items()))
    assert asked[0][-2:] == ["engine.stacks=4", "engine.threads=4"], "what is likely is first"
    fixed = {"engine.form=folded", "engine.products=joined", "engine.xla=true"}
    assert not fixed & set(asked[0])
    assert fixed | {"replicas=30"} <= set(asked[1])
    assert Choices.from_dict(json.loads(json.dumps(found.to_dict())), NAMES, LAYOUTS) == found
    assert cores.list_candidates(card.engine, 9) == [(4, 1), (2, 1), (1, 1)], "no stack of fewer than five"
    assert cores.list_candidates(replace(card.engine, stacks=3), 9) == [(4, 3), (2, 3), (1, 3)]


def test_cores_are_shared_by_stacks_of_five_replicas_or_more():
    share, small, large = partial(share_cores, steps=17_000), 1000, 10**7
    assert share(2, "auto", 100, small) == Cores(2, 10) and share(2, "auto", 10, small) == Cores(2, 2)
    assert share(1, "auto", 100, small) == Cores(1, 10), "a thread alone works on what the caches hold, too"
    assert share(8, "auto", 100, small) == Cores(8, 8), "12 or 13 replicas: the same number for each thread"
    assert share(2, "auto", 30, small) == Cores(2, 2), "two of 15 have one program, four of 7 and 8 have two"
    assert share(2, "auto", 9, small) == Cores(2, 1) and share(8, "auto", 20, small) == Cores(8, 4)
    assert share(8, "auto", 100, large) == Cores(8, 1)
    assert share(8, 3, 100, large) == Cores(8, 3) and share(1, 4, 1, small) == Cores(1, 4)
    assert share(2, "auto", 10, small, steps=501) == Cores(2, 2)
    assert share(2, "auto", 10, small, steps=500) == Cores(2, 1), "not worth the start of a second one"
    assert share(2, 2, 10, small, steps=500) == Cores(2, 2), "what the card says is done"


@pytest.mark.parametrize(("xla", "steps"), [("auto", 60), ("false", 60), ("true", sys.maxsize)])
def test_what_xla_has_to_compile_has_the_stacks_of_a_long_training(tmp_path, monkeypatch, xla, steps):
    monkeypatch.setattr(part, "share_cores", lambda *given: given)
    problem = SimpleNamespace(observables=SimpleNamespace(entries=7), ids=(1, 2, 3))
    card = load_card(make_card(tmp_path, steps=60, xla=xla))
    assert part.choose_cores(card, problem)[1:] == ("auto", 3, 7, steps)  # type: ignore[arg-type, index]
