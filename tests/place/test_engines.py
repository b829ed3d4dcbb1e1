"""Every placement and engine ends with the weights of one device, and is what the card asked for."""

import json

import numpy as np
import pytest

from tests.place.child import weights
from tests.place.clusters import carry_out, carry_out_on_workers
from tests.runcard.cards import ROOT

EXACT = ["engine.precision=float64"]
CLIPPED = "train.optimizer.global_clipnorm=0.01"
TWO = [*EXACT, "placement.devices=2"]
TOWERS = {
    "exp1": ["placement.preset=Exp1"], "exp2": ["placement.preset=Exp2"], "exp3": ["placement.preset=Exp3"],
    "exp4": ["placement.preset=Exp4"],
    "mixed": ["placement.variables=mirrored", "placement.embeddings=host", "placement.merge=host"],
    "slots": ["placement.slots=host", "placement.updates=device:1", "engine.embedding_gradients=dense"],
}  # fmt: skip
STRATEGIES = {
    "central": ["placement.engine=central", "placement.merge=host"],
    "reduced": ["placement.engine=mirrored"],
}
FEW = {**TOWERS, **STRATEGIES}
QUICK = ("exp1", "reduced")  # the whole matrix has the others, too
NAMES = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in FEW]
# what some of them train, so that placements, optimizers and dropout are tried together
NADAM = ["train.optimizer={name: Nadam, learning_rate: 0.01}", "model.dropout=0.3"]
MOMENTUM = ["train.optimizer={name: RMSprop, learning_rate: 0.01, momentum: 0.5}"]  # which is assigned as it is read
TRAINED = {"": [], "clipped": [CLIPPED], "nadam": NADAM, "momentum": MOMENTUM}
BY = {
    "exp1": "nadam", "mixed": "nadam", "central": "nadam", "exp4": "clipped", "reduced": "clipped",
    "slots": "momentum",
}  # fmt: skip
MORE = {
    "ring": ["placement.engine=mirrored", "placement.merge=ring"],
    "one": ["placement.variables=device:1", "placement.embeddings=device:0"],
    "mirrored": ["placement.variables=mirrored", "engine.embedding_gradients=dense"],
    "xla": ["placement.preset=Exp4", "engine.xla=true"],
    "reduced_on_host": ["placement.engine=mirrored", "placement.merge=host"],
    "hierarchical": ["placement.engine=mirrored", "placement.merge=hierarchical", "engine.embedding_gradients=dense"],
    "reduced_xla": ["placement.engine=mirrored", "engine.xla=true"],
}
# engines of some single devices, whose gradients nothing sums; what they train is held against by others
ONE = {"nadam": STRATEGIES["central"], "clipped": MORE["reduced_on_host"]}
RIGHT = 1e-9
PAIRS = ROOT / "data" / "gettext_en_de" / "pairs.tsv"
TEXT = f"training: {{table: {PAIRS}, columns: [english, german]}}, vocabulary: 400, max_length: 20, buckets: none"
RATES = {"SGD": "{name: SGD, learning_rate: 2.0}", "Adam": "{name: Adam, learning_rate: 0.01}"}  # that move the weights


def carry_out_few(folder, names):
    """Weights of placements of two devices and those of one device, in one process."""
    needed = {"", *(BY.get(name, "") for name in names)}
    single = {f"single_{name}": [*EXACT, *ONE.get(name, []), *TRAINED[name]] for name in needed}
    two = {name: [*TWO, *FEW[name], *TRAINED[BY.get(name, "")]] for name in names}
    carry_out(folder, {**two, **single})  # most devices first: they are fixed then
    return folder


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    return carry_out_few(tmp_path_factory.mktemp("quick"), QUICK)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return carry_out_few(tmp_path_factory.mktemp("whole"), FEW)


@pytest.fixture
def folder(name, request):
    """Where the placement of a test was carried out."""
    return request.getfixturevalue("quick" if name in QUICK else "whole")


def deviation(folder, name, reference, beside=None):
    """The largest difference of a weight; each card's weights have moved by more than rounding. NaN: there is one."""
    got, want = np.load(folder / f"{name}.npz"), np.load((beside or folder) / f"{reference}.npz")
    assert got["moved"] > 1e-5  # far more than what may differ
    return max(np.abs(got[key] - want[key]).max() for key in weights(want.files))


@pytest.mark.parametrize("name", NAMES)
def test_two_devices_end_with_the_weights_of_one(name, folder):
    reference = f"single_{BY.get(name, '')}"
    assert deviation(folder, name, reference) < RIGHT
    got, want = (np.load(folder / f"{which}.npz")["losses"] for which in (name, reference))
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_clipping_matters_here(quick):
    assert deviation(quick, "single_clipped", "single_") > 1e-4


def hold_workers_against(reference, beside, overrides, folder):
    """Two workers' weights are those of one device, and all of it ran where it should."""
    for worker in carry_out_on_workers(folder, {"workers": [*EXACT, *overrides]}, 2):
        assert deviation(worker, "workers", reference, beside) < RIGHT
        assert json.loads((worker / "workers.json").read_text())["faults"] == []


@pytest.mark.slow
def test_two_workers_of_a_device_end_with_the_weights_of_one_device(whole, tmp_path):
    place = "placement={engine: multiworker, merge: ring, devices: 2, workers: 2}"
    hold_workers_against("single_momentum", whole, [*MOMENTUM, place], tmp_path)


@pytest.mark.slow
def test_two_workers_of_two_devices_end_with_the_weights_of_one_device_on_text(tmp_path):
    """Sentences of a batch, and batches, have all lengths."""
    carry_out(tmp_path, {"text": [*EXACT, *NADAM, f"data={{{TEXT}, batch: 8}}"]})
    place = "placement={engine: multiworker, merge: ring, devices: 4, workers: 2}"
    hold_workers_against("text", tmp_path, [*NADAM, f"data={{{TEXT}, batch: 2}}", place], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("buckets", ["shared", "none"])
def test_a_ring_takes_text(buckets, tmp_path):
    one, three = (f"data={{{TEXT.replace('none', buckets)}, batch: {batch}}}" for batch in (9, 3))
    ring = ["placement={engine: mirrored, merge: ring, devices: 3}", three]
    carry_out(tmp_path, {"ring": [*EXACT, *ring], "one": [*EXACT, one]})
    assert deviation(tmp_path, "ring", "one") < RIGHT


def test_one_device_is_proved_too(quick):
    for name in {BY.get(name, "") for name in QUICK}:
        assert json.loads((quick / f"single_{name}.json").read_text())["faults"] == [], name


@pytest.mark.parametrize("name", NAMES)
def test_everything_ran_where_the_card_asked_for(name, folder):
    proof = json.loads((folder / f"{name}.json").read_text())
    assert proof["faults"] == []
    kind = "dense" if "engine.embedding_gradients=dense" in FEW[name] else "sparse"
    assert proof["kernels"] == {"recurrent": "plain", "embedding_gradients": kind, "xla": False}


@pytest.mark.parametrize("name", NAMES)
def test_a_call_is_traced_once(name, folder):
    """A call that makes variables is traced twice, which takes twice as long."""
    assert json.loads((folder / f"{name}.json").read_text())["traces"] == 1


@pytest.mark.parametrize("name", NAMES[1 : len(TOWERS)])
def test_a_placement_is_not_another_one(name, folder):
    """Held to the rules of the placement before it, which has the same names of operations."""
    assert json.loads((folder / f"{name}.json").read_text())["by_others"]


UPDATED = {
    "exp1": {"CPU:1", "CPU:2"}, "exp2": {"CPU:0"}, "exp3": {"CPU:0", "CPU:1", "CPU:2"}, "exp4": {"CPU:1", "CPU:2"},
    "slots": {"CPU:2"},
}  # fmt: skip


@pytest.mark.parametrize("name", [one for one in NAMES if one.values[0] in UPDATED])
def test_the_proof_tells_where_updates_ran(name, folder):
    places = json.loads((folder / f"{name}.json").read_text())["devices"]
    found = {device for what, counts in places.items() if what.startswith("update of") for device in counts}
    assert found == UPDATED[name]


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("devices", [2, 4])
def test_the_whole_matrix(devices, optimizer, tmp_path):
    common = [*EXACT, "model.layers=2", f"train.optimizer={RATES[optimizer]}"]
    cards = {name: [*common, f"placement.devices={devices}", *overrides] for name, overrides in {**FEW, **MORE}.items()}
    carry_out(tmp_path, {**cards, "single": common})
    worst = {}
    for name in cards:
        worst[name] = deviation(tmp_path, name, "single")
        proof = json.loads((tmp_path / f"{name}.json").read_text())
        assert proof["faults"] == []
        assert proof["kernels"]["xla"] is ("xla" in name)
    print(f"{devices} devices, {optimizer}: largest deviation {max(worst.values()):.1e}")
    assert max(worst.values()) < RIGHT


@pytest.mark.slow
def test_float32(tmp_path):
    cards = {}
    for optimizer in ("SGD", "Adam"):
        name = f"train.optimizer={RATES[optimizer]}"
        cards |= {f"{optimizer}_two": ["placement.devices=2", name], f"{optimizer}_one": [name]}
    carry_out(tmp_path, cards)
    gaps = {optimizer: deviation(tmp_path, f"{optimizer}_two", f"{optimizer}_one") for optimizer in ("SGD", "Adam")}
    print(f"float32: {gaps}")
    assert gaps["SGD"] < 1e-5
