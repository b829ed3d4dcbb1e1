"""A damaged card is refused with the place of each fault, or has just the values that its text says."""

import os

import pytest
import yaml
from hypothesis import strategies as st

from tests.fuzz.attack import attack, each_of
from tests.fuzz.cards import TEXTS, Plain, damaged
from tests.fuzz.damage import HOSTILE, paths
from tests.runcard.cards import FULL, write

FEW = 40
COMPARE = "tests.fuzz.cards:compare"
DEEP = (b"[" * 100_000, b"{a: " * 60_000, b"- " * 100_000,
        b"a:\n" + b"".join(b" " * i + b"a:\n" for i in range(1, 600)))  # fmt: skip
NINE = ((c, c, b", ".join([b"*%c" % (c - 1)] * 9)) for c in range(98, 120))
LAUGHS = b"a: &a [x]\n" + b"".join(b"%c: &%c [%s]\n" % one for one in NINE)
LARGE = (b"title: " + b"x" * 255_000, b"seed: " + b"9" * 255_000, b"[" + b"a, " * 80_000 + b"a]",
         b"{" + b"a, " * 80_000, b"".join(b"k%d: 1\n" % i for i in range(20_000)),
         FULL.encode().replace(b"all keys", b"y" * 200_000))  # fmt: skip


@pytest.fixture
def card(tmp_path):
    path = write(tmp_path, "")
    return lambda content: path.write_bytes(content) and path


@each_of(FEW, 2200)
def test_a_damaged_card_is_refused_or_has_the_values_of_its_text(cases, card, worker):
    bombs = LARGE if cases > FEW else ()  # which take seconds
    attack(cases, damaged(), lambda text: worker.ask(COMPARE, card(text or b" "))[0], *DEEP, LAUGHS, *bombs)


KEYS = sorted({".".join(map(str, path)) for text in TEXTS for path in paths(yaml.load(text, Plain))})
KEY = st.one_of(
    st.sampled_from(KEYS), st.sampled_from(KEYS), st.sampled_from(KEYS).map(lambda key: key[:-1]),
    st.tuples(st.sampled_from(KEYS), st.sampled_from(("0", "-1", "99", "", "name", "٣"))).map(".".join),
    st.sampled_from(("", ".", "..", "a.b.c", "0", "__class__", "data", "\x1b[2J", "x" * 3000,
                     "a.b.c.d.e.f.g.h.i.j.k.l")),
)  # fmt: skip
OVERRIDE = st.tuples(KEY, st.sampled_from(HOSTILE) | st.integers(0, 300).map(str) | st.floats().map(repr)).map("=".join)
VALID = ("seed=12", "seed= 7 ", "title=010", "title='1'", "title=\u00e9", "train.steps=300", "replicas=5",
         "replicas=2-4", "engine.xla=true", "engine.xla=auto", "model.layers.0=13",
         "train.optimizer.learning_rate=1e-2", "profile=null", "data.sets.1.weight=3", "data.sets=[]", "data.cuts={}",
         "data.cuts={q2_min: 1E+1}", "positivity.initial=2", "train={steps: 600}", "closure.noise=8",
         "title=a=b")  # fmt: skip
MANY = "data.exclude=[" + ", ".join(f"SET_{i}" for i in range(8000))
BOMBS = (
    [MANY + "]"], [MANY], ["title=" + "x" * 70_000], ["seed=1"] * 5000, ["seed=" + "9" * 60_000],
    ["a." * 30_000 + "b=1"], ["data.sets=[" + "{name: a}, " * 5000 + "]"], ["sweep=" + "[" * 30_000],
    ["x={" + "a: {" * 10_000], ["title=" + "&a " * 9],
    ["sweep={values: {train.steps: [" + ", ".join(map(str, range(1, 9000))) + "]}}"],
    ["seed=\n- 1"], ["no equals"], [""],
)  # fmt: skip


@each_of(30, 1400)
def test_an_override_is_refused_or_sets_just_its_value(cases, card, worker):
    path = card(FULL.encode())
    valid = st.lists(st.sampled_from(VALID), min_size=1, max_size=4)
    one = valid | st.lists(OVERRIDE | st.text(max_size=12), min_size=1, max_size=3)
    attack(cases, one, lambda overrides: worker.ask(COMPARE, path, *overrides)[0], *BOMBS)


def test_overrides_that_fit_are_taken(card, worker):
    path = card(FULL.encode())
    refused = {one: said for one in VALID for found, said in [worker.ask(COMPARE, path, one)] if found != "accepted"}
    assert not refused


@pytest.mark.parametrize("kind", ["folder", "pipe", "endless", "loop", "nowhere"])
def test_what_is_no_card_is_refused_at_once(kind, tmp_path, worker):
    path = tmp_path / "card.yaml"
    {"folder": path.mkdir, "pipe": lambda: os.mkfifo(path), "endless": lambda: path.symlink_to("/dev/zero"),
     "loop": lambda: path.symlink_to(path), "nowhere": lambda: None}[kind]()  # fmt: skip
    assert worker.ask(COMPARE, path)[0] == "refused"
