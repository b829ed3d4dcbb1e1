"""Bounds of a step, on machines whose ceilings are given."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from tests.runcard.cards import write
from tfperf.measure.roofline import Ceilings
from tfperf.place.devices import Devices
from tfperf.place.work import compute_bound_ms
from tfperf.workloads.translate import ceilings
from tfperf.workloads.translate.arithmetic import count_chain_turns, count_pass_flops
from tfperf.workloads.translate.batches import BatchPlan
from tfperf.workloads.translate.cards import load_card

ROWS, BATCH, SOURCE, LABELS = 50, 3, 5, 4
CARD = f"""\
workload: translate
data: {{fixed_length: 9, vocabulary: 300, batch: {BATCH}}}
model: {{units: 6, layers: 1}}
train: {{steps: 100, optimizer: {{name: SGD, learning_rate: 0.1}}}}
placement: {{variables: host, embeddings: host, devices: 2}}
"""
CPUS = Devices("host", ("one", "two"), logical=True)
GPUS = Devices("host", ("one", "two"), logical=False)
TURN = 1e-9  # s
WEIGHT, TABLE = 8 * 6, ROWS * 6  # entries


def variable(name, entries):
    return SimpleNamespace(path=name, shape=(entries,), dtype="float32")


@pytest.fixture
def bound(tmp_path, monkeypatch):
    """A function of devices and overrides; 2 GFLOP/s, 4 GB/s in memory and 1 GB/s between devices."""
    for name in ("measure_ceilings", "measure_tensorflow"):
        monkeypatch.setattr(ceilings, name, lambda threads, precision: Ceilings(4.0, 9.0, 2.0, precision, threads))
    monkeypatch.setattr(ceilings, "measure_link", lambda devices: 1.0)
    monkeypatch.setattr(ceilings, "count_cores", lambda: 2)
    monkeypatch.setattr(ceilings, "measure_turn_seconds", lambda *asked: TURN if asked[4] else 2 * TURN)
    model = SimpleNamespace(
        rows=ROWS, weights=[variable("w", WEIGHT)], embeddings=[variable("s", TABLE), variable("t", TABLE)]
    )
    lengths = np.array([[[SOURCE - 1, LABELS], [SOURCE + 1, LABELS + 2]]])  # of one step; START is no label
    plan = BatchPlan(np.zeros((1, 2, BATCH), int), lengths, np.array([20]), 0)

    def of(devices, *overrides, kernel="xla"):
        card = load_card(write(tmp_path, CARD), overrides)
        return card, ceilings.estimate_bound(card, SimpleNamespace(model=model, devices=devices), plan, kernel)

    return of


def test_logical_cpus_share_the_arithmetic_and_send_nothing(bound):
    card, found = bound(CPUS)
    flops = count_pass_flops(card.model, ROWS, BATCH, SOURCE, LABELS)
    assert found["flops_per_device"] == flops
    assert found["computation_ms"] == pytest.approx(1e3 * 2 * flops / 2e9)
    # SGD reads gradient and variable and writes the variable; each variable has one copy
    assert found["updated_bytes"] == 3 * 4 * (WEIGHT + 2 * TABLE)
    assert found["update_ms"] == pytest.approx(1e3 * found["updated_bytes"] / 4e9)
    assert (found["sent_ms"], found["link_gb_s"]) == (None, None)
    assert found["bound_ms"] == pytest.approx(found["computation_ms"] + found["update_ms"])


def test_each_gpu_computes_its_part_and_sending_can_hide_behind_it(bound):
    _, found = bound(GPUS)
    assert found["computation_ms"] == pytest.approx(1e3 * found["flops_per_device"] / 2e9)
    assert found["update_ms"] == pytest.approx(1e3 * found["updated_bytes"] / 4e9 / 2)
    # the host sends each device the weights and the rows of its sentences, and gets their gradients
    rows = BATCH * (SOURCE + LABELS) * 6
    assert found["sent_bytes"] == 2 * 2 * 4 * (WEIGHT + rows)
    assert found["sent_ms"] == pytest.approx(1e3 * found["sent_bytes"] / 1e9)
    slower = max(found["computation_ms"], found["sent_ms"])
    assert found["bound_ms"] == pytest.approx(slower + found["update_ms"])


FOUR = Devices("host", ("one", "two", "three", "four"), logical=True)


@pytest.mark.parametrize(("devices", "at_once"), [(CPUS, 1), (FOUR, 2), (GPUS, 1)])
def test_an_lstms_steps_are_one_after_the_other(bound, devices, at_once):
    _, found = bound(devices)
    assert found["chain_steps"] == SOURCE + LABELS and found["turn"] == [BATCH, 6, "float32", "xla"]
    assert found["turn_ms"] == 1e3 * TURN
    # of four chains two can go on at a time on two cores
    assert found["chain_ms"] == pytest.approx(1e3 * TURN * (SOURCE + LABELS) * at_once)
    _, plain = bound(devices, kernel="plain")
    assert plain["chain_ms"] == pytest.approx(2 * found["chain_ms"])
    assert bound(devices, kernel="block")[1]["chain_ms"] == found["chain_ms"], "no launch for each step"
    assert bound(devices, kernel="cudnn")[1]["chain_ms"] is None


def test_the_bound_is_the_longest_of_what_can_hide_behind_each_other_and_the_update(bound, monkeypatch):
    monkeypatch.setattr(ceilings, "measure_turn_seconds", lambda *asked: 1.0)
    _, found = bound(CPUS)
    assert found["chain_ms"] > found["computation_ms"]
    assert found["bound_ms"] == pytest.approx(found["chain_ms"] + found["update_ms"])
    assert compute_bound_ms({"computation_ms": 3.0, "chain_ms": 2.0, "sent_ms": None, "update_ms": 1.0}) == 4.0
    assert compute_bound_ms({"computation_ms": 3.0, "chain_ms": None, "sent_ms": 5.0, "update_ms": 1.0}) == 6.0


@pytest.mark.parametrize(
    ("layers", "source", "target", "steps"),
    [(1, 5, 4, 9), (2, 5, 4, 14), (2, 4, 5, 14), (4, 10, 3, 43), (3, 3, 10, 33)],
)
def test_steps_that_no_device_can_take_at_the_same_time(layers, source, target, steps):
    # the longest way through encoder layers one after the other and decoder layers, each behind the encoder's beside it
    ready = {}
    for layer in range(layers):
        ready["encoder", layer] = ready.get(("encoder", layer - 1), 0) + source
        ready["decoder", layer] = max(ready["encoder", layer], ready.get(("decoder", layer - 1), 0)) + target
    assert count_chain_turns(layers, source, target) == ready["decoder", layers - 1] == steps


def test_dense_gradients_of_tables_are_sent_whole_and_rows_alone_are_read(bound):
    _, found = bound(GPUS, "engine.embedding_gradients=dense")
    rows = BATCH * (SOURCE + LABELS) * 6
    assert found["sent_bytes"] == 2 * 4 * ((WEIGHT + rows) + (WEIGHT + 2 * TABLE))


def test_copies_between_devices_are_timed():
    cpu = tf.config.list_logical_devices("CPU")[0].name
    assert 0 < ceilings.measure_link(Devices(cpu, (cpu,), logical=False)) < 1e9
