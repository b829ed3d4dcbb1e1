"""A network with BatchNormalization and Dropout and a recommender of two tables train alike on any devices.

Held against the plain way: eager Keras in float64 on the whole batch, where rows are looked up by products with ones,
and every example draws by itself. Variables, statistics, slots, losses and metrics after ten steps are the same to
1e-9; sums in another order leave some 1e-13, as Adam makes steps of full size of gradients that are none.

BatchNormalization on N devices is not synchronized: each device normalises its part by the part's own mean and
variance, and the moving averages merge by mean over devices. One device does the same arithmetic where it normalises N
groups of its batch apart (Hoffer, Hubara & Soudry 2017, ghost batches), and so does the plain way.
"""

import json
import re
import sys

import numpy as np
import pytest

from tests.place.clusters import carry_out

PROGRAM = [sys.executable, "-m", "tests.place.trained"]
PLACED = {
    "host": {"preset": "Exp1"}, "device": {"preset": "Exp4"}, "copies": {"variables": "mirrored"},
    "mirrored": {"engine": "mirrored"}, "hierarchical": {"engine": "mirrored", "merge": "hierarchical"},
    "central": {"engine": "central", "merge": "host"},
}  # fmt: skip
PLACEMENTS = {
    **PLACED, "on the host": {"preset": "Exp2"}, "tables on the host": {"preset": "Exp3"},
    "mixed": {"variables": "mirrored", "embeddings": "host", "merge": "host"},
    "reduced on the host": {"engine": "mirrored", "merge": "host"},
    "slots": {"variables": "device", "slots": "host", "updates": "device:0"},
}  # fmt: skip
GROUPS = 2  # of the network's batch, however many devices there are
RIGHT = 1e-9
SINGLE = 1e-4  # by which what is of float32 may deviate more
CHEATING = {  # in one program; each is told by a fault of its own
    "update_on_the_host_beside_a_decoy": "^Sqrt on CPU:0: no rule covers it, and it touches",
    "a_device_that_idles": "matrix products on CPU:2",
    "statistics_merged_on_the_host": "^AddN on CPU:0: no rule covers it, and it touches",
    "statistics_changed_twice": "variables of 4.4 kB .* written 2 times a step; must be 1",
}
TWICE, WHOLE = "0.6667 of device 0 [+] 0.3333 of device 1", "1 of device 0 [+] 1 of device 1"
MUST = "must be 0.5 of device 0 [+] 0.5 of device 1"
UNMERGED = {  # in a program of each placement
    "the_first_ones_statistics_counted_twice": ("host", f"merge of .*moving_mean: .* takes {TWICE}; {MUST}"),
    "metrics_not_divided": ("host", f"merge of metric spread: CPU:0 takes {WHOLE}; {MUST}"),
    "statistics_of_replicas_not_divided": ("mirrored", f"merge of .*moving_mean: .* takes {WHOLE}; {MUST}"),
}


def placed(model, placement, devices, **more):
    """What a program is asked for."""
    groups = {"groups": GROUPS // devices} if model == "network" else {}
    return {"model": model, "placement": {**PLACEMENTS.get(placement, {}), "devices": devices}, **groups, **more}


PLAIN = {name: {"model": name, "groups": GROUPS, "plain": True} for name in ("network", "recommender", "uncommon")}
FEW = {
    "recommender, mirrored, 2": placed("recommender", "mirrored", 2, prove=True),
    "network, host, 2": placed("network", "host", 2, prove=True),
    "network, mirrored, 2": placed("network", "mirrored", 2, prove=True),
    "uncommon, hierarchical, 2": placed("uncommon", "hierarchical", 2, prove=True),
}


def train(folder, cards):
    """Ten steps of each program; the faults of those that are proved."""
    carry_out(folder, cards, PROGRAM)
    return json.loads((folder / "faults.json").read_text())


def deviations(folder, name):
    """From the plain way, the largest of each array, and from what it begins with."""
    got, want = np.load(folder / f"{name}.npz"), np.load(folder / f"{name.partition(',')[0]}.npz")
    assert set(got.files) == set(want.files) and len(want.files) > 10
    found = {key: np.abs(got[key].astype(float) - want[key].astype(float)).max() for key in want.files}
    return {key: gap * (SINGLE if want[key].dtype == np.float32 else 1) for key, gap in found.items()}


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """All that training changed, and the faults of one step more."""
    folder = tmp_path_factory.mktemp("trainables")
    whole = placed("network", "device", 1) | {"groups": 1}
    cheats = placed("network", "device", 2, prove=True, precision="float32", cheats=list(CHEATING))
    unmerged = {
        place: placed(
            "network", place, 2, prove=True, cheats=[one for one, (its, _) in UNMERGED.items() if its == place]
        )
        for place in ("host", "mirrored")
    }
    return folder, train(folder, {**FEW, "whole": whole, **PLAIN, "cheats": cheats, **unmerged})


@pytest.mark.parametrize("name", FEW)
def test_any_devices_train_as_the_plain_way(name, few):
    found = deviations(few[0], name)
    assert max(found.values()) < RIGHT, found


def test_training_moves_all_of_it(few):
    """Losses fall, dropout and averages are at work, and every metric says something."""
    for name in PLAIN:
        plain = np.load(few[0] / f"{name}.npz")
        assert plain["losses"][-1] < plain["losses"][0] or name == "uncommon"  # whose batches are noise
        assert all(np.ptp(plain[key]) > 0 for key in plain.files if key.startswith("metric"))


def test_groups_of_examples_are_normalised_apart(few):
    whole, apart = (np.load(few[0] / f"{name}.npz") for name in ("whole", "network"))
    assert np.abs(whole["losses"] - apart["losses"]).max() > 1e-3


def test_what_is_placed_is_proved(few):
    _, faults = few
    assert {name: faults[name] for name in FEW if faults[name]} == {}


@pytest.mark.parametrize("cheat", CHEATING)
def test_a_cheat_is_noticed(cheat, few):
    assert any(re.search(CHEATING[cheat], fault) for fault in few[1]["cheats"]), few[1]["cheats"]


@pytest.mark.parametrize("cheat", UNMERGED)
def test_a_wrong_merge_is_noticed(cheat, few):
    place, fault = UNMERGED[cheat]
    assert any(re.search(fault, told) for told in few[1][place]), few[1][place]


@pytest.mark.slow
def test_every_placement_everywhere(tmp_path):
    """Also compiled by XLA, with whole tables sent, and by a ring."""
    cards = {}
    for devices in (3, 2, 1):
        for name in PLACEMENTS if devices == 2 else PLACEMENTS.keys() - {"hierarchical"}:  # of even numbers alone
            models = ("network", "recommender", "uncommon") if devices < 3 else ("recommender",)
            cards |= {f"{model}, {name}, {devices}": placed(model, name, devices, prove=True) for model in models}
    ring = {"engine": "mirrored", "merge": "ring", "devices": 3}  # TensorFlow's have one size in a process
    cards["recommender, ring, 3"] = placed("recommender", "", 3, prove=True) | {"placement": ring}
    for name in ("device", "mirrored"):
        cards |= {f"{model}, {name} xla": placed(model, name, 2, prove=True, xla=True) for model in PLAIN}
        few = ("recommender", "uncommon")
        cards |= {f"{model}, {name} dense": placed(model, name, 2, prove=True, dense=True) for model in few}
    faults = train(tmp_path, {**cards, **PLAIN})
    found = {name: max(deviations(tmp_path, name).values()) for name in cards}
    print(f"{len(found)} placements, largest deviation {max(found.values()):.1e}")
    assert max(found.values()) < RIGHT, found
    assert {name: some for name, some in faults.items() if some} == {}
