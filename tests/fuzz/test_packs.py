"""A damaged pack is refused, or a fit has the numbers that plain h5py and NumPy find in it."""

import pytest
from hypothesis import strategies as st

from tests.fuzz.attack import attack, each_of
from tests.fuzz.damage import flipped
from tests.fuzz.hdf5 import edits, outside_chunks
from tests.workloads.pdf.data.packs import write_good
from tfperf.workloads.pdf.data.validate import validate

COMPARE = "tests.fuzz.packs:compare"
CARDS = {
    "all sets": "t0: none",
    "a set with t0": "t0: pack, sets: [{name: TOY_F2}]",
    "cuts": "t0: none, cuts: {q2_min: 10, x_max: 0.8}",
}
CARD = "replicas: 2\ndata: {{pack: pack.h5, {}}}\ntrain: {{steps: 5}}\nengine: {{cache: false}}\n"
# edits that leave a sound pack: points on the limits of cuts, flavours that are others at Q0, other orders
SOUND = [
    ("cuts", [("value", "TOY_F2/kin", 1, 10.0), ("value", "TOY_F2/kin", 3, 0.8), ("value", "TOY_F2/kin", 4, 10.1)]),
    ("all sets", [("value", "TOY_F2/flav", 2, 13), ("value", "TOY_F2/flav", 0, 0), ("value", "TOY_DP/flav", 0, 7)]),
    ("all sets", [("value", "TOY_PP/channels", 3, 12), ("value", "TOY_PP/channels", 1, 8)]),
    ("a set with t0", [("times", "TOY_F2/t0", 0, -1), ("times", "TOY_F2/sys", 0, -1)]),
    ("all sets", [("times", "TOY_DP/fk_den", 0, -1), ("type", "TOY_F2/cv", "f4", 0), ("type", "TOY_F2/cuts", "u8", 0)]),
    ("all sets", [("rename", "TOY_F2", "ZZZ", 0), ("rename", "positivity/TOY_POS", "fkk", 0)]),
]


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = write_good(tmp_path_factory.mktemp("good") / "good.h5")
    validate(path)
    return path


@pytest.fixture
def ask(good, tmp_path, worker):
    """The verdict on a pack of these bytes, which is edited before it is read."""
    card, pack = tmp_path / "card.yaml", tmp_path / "pack.h5"

    def one(words, content, steps=()):
        pack.write_bytes(content)
        card.write_text(CARD.format(CARDS[words]))
        return worker.ask(COMPARE, card, steps)[0]

    return one


@each_of(25, 1000)
def test_a_pack_with_flipped_bytes_is_refused_or_has_the_numbers_that_are_in_it(cases, good, ask):
    whole = good.read_bytes()
    material = st.tuples(st.sampled_from(list(CARDS)), flipped(whole, outside_chunks(good)))
    bombs = [("all sets", content) for content in (b"", whole[:8], bytes(10**6))]
    attack(cases, material, lambda case: ask(*case), *bombs)


@each_of(25, 1000)
def test_an_edited_pack_is_refused_or_has_the_numbers_that_are_in_it(cases, good, ask):
    whole = good.read_bytes()
    material = st.tuples(st.sampled_from(list(CARDS)), edits(good))
    assert [ask(words, whole, steps) for words, steps in SOUND] == ["accepted"] * len(SOUND)
    attack(cases, material, lambda case: ask(case[0], whole, case[1]))
