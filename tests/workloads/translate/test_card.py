"""Cards of workload translate: what they may say, and what is refused."""

import pytest
import yaml

from tests.runcard.cards import TRANSLATIONS, write
from tests.workloads.translate.cards import SHORT, TABLE
from tfperf.errors import CardError
from tfperf.runcard.dump import dump_card
from tfperf.workloads.cards import load_card as load_any
from tfperf.workloads.pdf.cards import load_card
from tfperf.workloads.translate.cards import load_card as load_translation


def faults(folder, text=SHORT, overrides=()):
    with pytest.raises(CardError) as caught:
        load_any(write(folder, text), overrides)
    return [str(fault).partition("card.yaml:")[2] or fault for fault in caught.value.faults]


def test_a_card_survives_being_written(tmp_path):
    card = load_translation(write(tmp_path, SHORT))
    assert card.data.training is not None and card.data.training.table == TABLE
    again = tmp_path / "again"
    again.mkdir()
    assert load_any(write(again, dump_card(card))) == card
    assert yaml.safe_load(dump_card(card))["placement"]["engine"] == "tower"


@pytest.mark.parametrize("name", TRANSLATIONS)
def test_shipped_cards_load_and_survive_being_written(tmp_path, name):
    card = load_any(write(tmp_path, TRANSLATIONS[name]))
    assert card.workload == "translate" and card.title
    again = tmp_path / "again"
    again.mkdir()
    assert load_any(write(again, dump_card(card))) == card


def test_what_fits_replicas_refuses_it(tmp_path):
    with pytest.raises(CardError, match="got 'translate'; this takes cards of workload pdf"):
        load_card(write(tmp_path, SHORT))


def test_an_unknown_workload_is_named_once_with_the_nearest(tmp_path):
    text = SHORT.replace("translate", "translat")
    want = ["1: workload: got 'translat'; allowed: pdf, translate, keras, predict; did you mean `translate`?"]
    assert faults(tmp_path, text) == want


@pytest.mark.parametrize(
    ("preset", "places"),
    [
        ("Exp1", ("host", "host", "with_variable", "device")),
        ("Exp2", ("host", "host", "with_variable", "host")),
        ("Exp3", ("device", "host", "with_variable", "with_variable")),
        ("Exp4", ("device", "device", "with_variable", "with_variable")),
        ("Exp5", ("device", "device", "with_variable", "with_variable")),
    ],
)
def test_presets(preset, places, tmp_path):
    card = load_translation(write(tmp_path, SHORT), [f"placement.preset={preset}"])
    assert card.placement.resolve().places == places
    assert card.fixed_length == (100 if preset == "Exp5" else None)


def test_nulls_follow_the_engine_and_the_variables(tmp_path):
    def places(*overrides):
        return load_translation(write(tmp_path, SHORT), overrides).placement.resolve().places

    assert places() == ("device", "device", "with_variable", "with_variable")
    assert places("placement.engine=mirrored") == ("mirrored", "mirrored", "with_variable", "with_variable")
    assert places("placement.variables=host") == ("host", "host", "with_variable", "with_variable")
    assert places("placement.variables=host", "placement.embeddings=mirrored")[1] == "mirrored"


@pytest.mark.parametrize(
    ("overrides", "fault"),
    [
        (["placement.merge=hierarchical", "placement.devices=3"], "placement.merge: got 'hierarchical'; with an odd"),
        (
            ["placement.engine=mirrored", "placement.variables=host"],
            "placement.variables: got 'host'; must be mirr",
        ),
        (["placement.engine=mirrored", "placement.updates=host"], "placement.updates: got 'host'; must be with_variab"),
        (["placement.engine=central"], "placement.merge: 'reduce_to_one' by default; must be host with engine central"),
        (["placement.engine=multiworker"], "placement.merge: 'reduce_to_one' by default; must be ring with engine mul"),
        (["placement.variables=device:1"], "placement.variables: got 'device:1'; must be below device:1"),
        (["placement.variables=device:x"], "placement.variables: got 'device:x'; must be host, device, mirrored"),
        (
            ["placement.variables=mirrored", "placement.slots=host"],
            "placement.slots: got 'host'; must be with_var",
        ),
        (["placement.preset=Exp1", "placement.updates=host"], "placement.updates: got 'host'; must be left out beside"),
        (["placement.preset=Exp1", "placement.engine=mirrored"], "placement.engine: got 'mirrored'; must be tower for"),
        (["placement.workers=2"], "placement.workers: got 2; must be null with engine tower, which is one process"),
        (
            ["placement={engine: multiworker, merge: ring, devices: 3, workers: 2}"],
            "placement.workers: got 2; must divide the devices evenly, which are 3",
        ),
        (["placement.devices=9"], "placement.devices: got 9; must be all or a whole number from 1 to 8"),
        (["data.training=null"], "data.training: got null; must name sentence pairs, unless data.fixed_length"),
        (["data.training.hdf5=x.h5"], "data.training.hdf5: got 'x.h5'; no such file"),
        (["data.scaling=strong"], "data.scaling_devices: null by default; must be given with data.scaling = strong"),
        (["data.scaling_devices=4"], "data.scaling_devices: got 4; must be left out without data.scaling"),
        (
            ["data.scaling=weak", "data.scaling_devices=2", "data.buckets=per_device"],
            "data.buckets: got 'per_device'; with data.scaling = weak must be shared or none",
        ),
        (
            ["data.scaling=weak", "data.scaling_devices=2", "placement.devices=4"],
            "data.scaling_devices: got 2; must be at least placement.devices = 4",
        ),
        (
            ["data.scaling=strong", "data.scaling_devices=4", "data.batch=2", "placement.devices=3"],
            "data.batch: got 2; 3 devices cannot share 8 pairs of a step equally",
        ),
        (["model.table=300"], "model.table: got 300; must be at least data.vocabulary = 8000"),
        (["train.steps_per_call=101"], "train.steps_per_call: got 101; must be at most train.steps = 100"),
    ],
)
def test_what_is_refused(overrides, fault, tmp_path):
    found = faults(tmp_path, overrides=overrides)
    assert any(fault.replace("'", "") in line.replace("'", "") for line in found), found


def test_a_corpus_has_one_form(tmp_path):
    both = f"data.training={{table: {TABLE}, hdf5: {TABLE}}}"
    assert any("must be left out beside table" in line for line in faults(tmp_path, overrides=[both]))
    half = f"data.training={{source: {TABLE}}}"
    assert any("data.training.target: null by default; must be given with source" in line
               for line in faults(tmp_path, overrides=[half]))  # fmt: skip


KEYS = "{model.units: [8, 16]}"


@pytest.mark.parametrize(
    ("overrides", "fault"),
    [
        (
            ["sweep.keys.placement.devices=[1, 2]"],
            "allowed: from, to, step; a swept key is written whole, as `placement.devices: [...]`",
        ),
        (["sweep.keys={}"], "sweep.keys: got a mapping; must be a mapping of 1 to 32 entries"),
        ([f"sweep.keys={KEYS}", "sweep.without=[{}]"], "sweep.without.0: got a mapping; must be a mapping of 1 to 32 "),
        (
            ["sweep.keys={profile: [null], profile.steps: [1, 2]}"],
            "profile.steps cannot be swept beside profile, which it is inside of",
        ),
        (["data.training.columns=[english]"], "data.training.columns: got [english]; must be a list of 2 texts"),
    ],
)
def test_messages_of_blocks_with_free_keys(overrides, fault, tmp_path):
    found = faults(tmp_path, overrides=overrides)
    assert any(fault in line for line in found), found


def test_no_number_is_offered_that_is_not_allowed(tmp_path):
    (far,) = faults(tmp_path, overrides=[f"sweep.keys={KEYS}", "sweep.repeats=1e9"])
    (near,) = faults(tmp_path, overrides=[f"sweep.keys={KEYS}", "sweep.repeats=1e1"])
    assert far.endswith("from 1 to 100") and near.endswith("did you mean `10`?")
