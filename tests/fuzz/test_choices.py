"""Damaged choices, kept for the next run or in run.json, are measured again or refused, or taken at their word."""

import hashlib
import json
from dataclasses import asdict, replace

import pytest

from tests.fuzz.attack import attack, each_of
from tests.fuzz.damage import edited, flipped
from tests.make_pack import make_card
from tfperf.train import choice_cache
from tfperf.train.choices import CandidateTiming, Choices
from tfperf.workloads.pdf.cards import load_card
from tfperf.workloads.pdf.forms import LAYOUTS, NAMES
from tfperf.workloads.pdf.stack import make_settings

MADE = Choices(
    form="shared", products="grouped", xla=True, losses_xla=False, steps_per_call=10, threads=2, cpu_stacks=1,
    tried=(CandidateTiming("shared", "grouped", True, 1.5, 0.1),),
    cores_tried=((1, 2, 0.5), (2, 1, 0.25)),
)  # fmt: skip
PLAIN = json.loads(json.dumps(asdict(MADE)))
ODD = [{**PLAIN, **change} for change in (
    {"steps_per_call": 0}, {"steps_per_call": -1}, {"threads": 0}, {"threads": 10**6}, {"xla": 1}, {"xla": "no"},
    {"form": "naive"}, {"steps_per_call": 5.0}, {"steps_per_call": True}, {"steps_per_call": 9}, {"tried": None},
    {"cpu_stacks": 0}, {"losses_xla": 0},
)]  # fmt: skip


def check(found, said):
    """AssertionError where choices are not those of a plain text, or no training could take them."""
    assert json.loads(json.dumps(asdict(found))) == {"cores_tried": [], "cached": False, **said}
    assert found.form in ("shared", "folded") and found.products in ("grouped", "joined", "padded")
    assert type(found.xla) is bool and all(type(n) is int for n in (found.steps_per_call, found.threads))
    assert 1 <= found.steps_per_call <= 10**8 and 1 <= found.threads <= 10**4
    assert all(t.ms_per_step >= 0 and t.compile_seconds >= 0 for t in found.tried)


def read_kept(card, path):
    return choice_cache.read(make_settings(card), path, NAMES, LAYOUTS)


@pytest.fixture
def kept(tmp_path):
    """A card, and the file of its choices."""
    card, path = load_card(make_card(tmp_path)), tmp_path / "choices" / "key.json"
    assert choice_cache.write(path, MADE) == () and read_kept(card, path) == replace(MADE, cached=True)
    return card, path


@each_of(20, 200)
def test_flipped_bytes_of_kept_choices_are_measured_again(cases, kept):
    card, path = kept
    whole = path.read_bytes()

    def read(content):
        path.write_bytes(content)
        found = read_kept(card, path)
        assert found in (None, replace(MADE, cached=True))
        return "refused" if found is None else "accepted"

    attack(cases, flipped(whole), read, b"", b"[" * 10**5, verdicts=["refused"])


@each_of(25, 200)
def test_edited_choices_are_measured_again_or_taken_at_their_word(cases, kept):
    card, path = kept

    def read(tree):
        text = json.dumps(tree, sort_keys=True)
        path.write_text(json.dumps({"sha256": hashlib.sha256(text.encode()).hexdigest(), "choices": tree}))
        found = read_kept(card, path)
        if found is not None:
            check(replace(found, cached=tree.get("cached", False)), tree)
            assert found.steps_per_call <= card.train.steps_per_call
        return "refused" if found is None else "accepted"

    attack(cases, edited(json.dumps(PLAIN)), read, *ODD)


@each_of(25, 200)
def test_edited_choices_of_a_run_are_refused_or_taken_at_their_word(cases):
    def read(tree):
        try:
            check(Choices.from_dict(tree, NAMES, LAYOUTS), tree)
        except ValueError:
            return "refused"
        return "accepted"

    attack(cases, edited(json.dumps(PLAIN)), read, *ODD)
