"""A damaged run.json is refused, or a resumed run goes on with just what it says."""

import json

import pytest
from hypothesis import strategies as st

from tests.fuzz import states
from tests.fuzz.attack import attack, each_of
from tests.fuzz.damage import edited, flipped

COMPARE = "tests.fuzz.states:compare"
HASHES = {"data.pack": "b" * 64}
FEW = 25
NAN = float("nan")


@pytest.fixture
def run(tmp_path):
    (tmp_path / "pack.h5").write_bytes(b"")
    card = tmp_path / "card.yaml"
    card.write_text("replicas: 3\ndata: {pack: pack.h5}\ntrain: {steps: 20}\n")
    states.begin(card, tmp_path / "run", HASHES)
    return tmp_path / "run"


@pytest.fixture
def ask(run, worker):
    def one(content):
        (run / "run.json").write_bytes(content)
        return worker.ask(COMPARE, run.parent / "card.yaml", run, HASHES)[0]

    assert one((run / "run.json").read_bytes()) == "accepted"
    return one


@each_of(FEW, 500)
def test_flipped_bytes_of_run_json_are_refused_or_change_nothing(cases, run, ask):
    bombs: tuple[bytes, ...]
    bombs = (b"", b"[" * 10**6, b'{"a":' * 10**6, b"9" * 10**5, b'{"format": 2, "parts": [' + b"{}," * 10**5 + b"{}]}",
             b"\xef\xbb\xbf{}", b"null", b'"' + b"x" * 10**7 + b'"')  # fmt: skip
    whole = (run / "run.json").read_bytes()
    digits = [whole.replace(*one, 1) for one in ((b"2", b"3"), (b"5", b"7"), (b'"done": true', b'"done": false'))]
    bombs = bombs if cases > FEW else bombs[:3]
    attack(cases, flipped(whole), ask, *digits, *bombs, verdicts=["refused"])


@each_of(25, 900)
def test_an_edited_run_json_with_a_checksum_that_fits_is_refused_or_taken_at_its_word(cases, run, ask):
    text = (run / "run.json").read_text()
    choices = json.loads(text)
    choices["parts"][1]["choices"] = {"nan": NAN, "steps_per_call": 0, "deep": [[[{"": None}]]]}
    material = edited(text) | st.sampled_from([choices])
    attack(cases, material, lambda tree: ask(states.seal(tree)), choices)
