"""The devices that a card gets, on machines that differ."""

import json
import re

import pytest
import tensorflow as tf

from tfperf.errors import UserError
from tfperf.place import devices
from tfperf.place.devices import count_devices, make_devices
from tfperf.runcard.placement import TF_CONFIG, Placement


@pytest.fixture
def machine(monkeypatch):
    """A function that sets how many GPUs TensorFlow finds; it gives the counts of logical CPUs that were made."""
    made = []
    monkeypatch.setattr(tf.config, "set_soft_device_placement", lambda on: None)
    monkeypatch.setattr(devices, "_split_cpu", made.append)

    def have(gpus):
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [kind] * gpus)
        return made

    return have


def short(found):
    return [name.rpartition("device:")[2] for name in (found.host, *found.each)]


def test_logical_cpus_stand_beside_the_host(machine):
    made = machine(0)
    found = make_devices(Placement(devices=2))
    assert short(found) == ["CPU:0", "CPU:1", "CPU:2"] and found.logical and made == [3]
    assert [found.get_short_name(name) for name in (found.host, *found.each)] == ["host", "device:0", "device:1"]
    assert short(make_devices(Placement(devices="all"))) == ["CPU:0", "CPU:1"]


def test_gpus_are_taken_where_there_are_some(machine):
    made = machine(4)
    found = make_devices(Placement(devices=2))
    assert short(found) == ["CPU:0", "GPU:0", "GPU:1"] and not found.logical and made == []
    assert len(make_devices(Placement(devices="all"))) == 4


@pytest.mark.parametrize(
    ("gpus", "keys", "fault"),
    [
        (2, {"devices": 3}, "placement.devices: got 3; this machine has 2 GPUs"),
        (3, {"devices": "all", "merge": "hierarchical"}, "placement.merge: got 'hierarchical'; with an odd number"),
        (2, {"devices": "all", "variables": "device:2"}, "placement.variables: got 'device:2'; must be below device:2"),
        (0, {"devices": "all", "updates": "device:1"}, "placement.updates: got 'device:1'; must be below device:1"),
    ],
)
def test_what_the_machine_does_not_allow(gpus, keys, fault, machine):
    machine(gpus)
    with pytest.raises(UserError, match=fault):
        make_devices(Placement(**keys))


def cluster(*workers, index):
    return json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}})


def test_workers_are_those_of_the_cluster(machine, monkeypatch):
    machine(0)
    monkeypatch.setenv(TF_CONFIG, cluster("a:1", "b:1", index=1))
    found = make_devices(Placement(devices=2, engine="multiworker", merge="ring"))
    assert found.host == "/job:worker/replica:0/task:1/device:CPU:0"
    assert found.mine == [(1, found.host)] and len(found) == 2
    with pytest.raises(UserError, match="got 3; TF_CONFIG lists 2 workers"):
        make_devices(Placement(devices=3, engine="multiworker", merge="ring"))
    with pytest.raises(UserError, match=r"placement\.workers: got 4; TF_CONFIG lists 2"):
        make_devices(Placement(devices=4, workers=4, engine="multiworker", merge="ring"))


def test_workers_without_a_cluster(machine, monkeypatch):
    machine(0)
    monkeypatch.delenv(TF_CONFIG, raising=False)
    placement = Placement(devices=4, workers=2, engine="multiworker", merge="ring")
    with pytest.raises(UserError, match=r"TF_CONFIG is not set: it must list cluster\.worker and task\.index"):
        make_devices(placement)
    assert count_devices(placement) == 4  # of a sweep's card: each trial starts its workers
    assert count_devices(Placement(devices="all", engine="multiworker", merge="ring")) == 1


def test_workers_divide_logical_cpus(machine, monkeypatch):
    made = machine(0)
    monkeypatch.setenv(TF_CONFIG, cluster("a:1", "b:1", index=1))
    found = make_devices(Placement(devices=4, workers=2, engine="multiworker", merge="ring"))
    assert made == [2] and found.workers == 2
    own = [f"/job:worker/replica:0/task:1/device:CPU:{k}" for k in (0, 1)]
    assert found.mine == [(2, own[0]), (3, own[1])] and found.host == own[0]


@pytest.mark.parametrize(
    ("workers", "devices", "seen"), [(["a:1", "b:1"], 4, [0, 1]), (["a:1", "a:2"], 4, [2, 3]), (["b:1", "a:1"], 2, [0])]
)
def test_workers_see_no_gpus_but_their_own(workers, devices, seen, machine, monkeypatch):
    machine(4)
    visible = []
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [0, 1, 2, 3])
    monkeypatch.setattr(tf.config, "set_visible_devices", lambda found, kind: visible.append((found, kind)))
    monkeypatch.setenv(TF_CONFIG, cluster(*workers, index=1))
    found = make_devices(Placement(devices=devices, engine="multiworker", merge="ring"))
    assert visible == [(seen, "GPU")] and not found.logical
    assert short(found)[1:] == [f"GPU:{k}" for k in range(devices // 2)] * 2


def test_a_worker_without_its_gpus(machine, monkeypatch):
    machine(3)
    monkeypatch.setenv(TF_CONFIG, cluster("a:1", "a:2", index=1))
    with pytest.raises(UserError, match=r"placement\.devices: this worker needs GPUs 2 to 3; this machine has 3"):
        make_devices(Placement(devices=4, engine="multiworker", merge="ring"))


def test_a_cluster_that_cannot_be_read(monkeypatch):
    monkeypatch.setenv(TF_CONFIG, '{"cluster": {}}')
    with pytest.raises(UserError, match="TF_CONFIG: cannot be read"):
        devices.parse_tf_config()


@pytest.mark.parametrize(
    ("workers", "index", "text"),
    [
        (["a:1", "b:1"], 2, "task.index: got 2; must be 0 to 1, one of the workers"),
        (["a:1"], -1, "task.index: got -1; must be 0 to 0"),
        ([], 0, "cluster.worker: got []; must be a list of addresses"),
        ([1, 2], 0, "cluster.worker: got [1, 2]; must be a list of addresses"),
        ("ab", 0, "cluster.worker: got 'ab'; must be a list of addresses"),
    ],
)
def test_a_cluster_without_this_worker_or_without_addresses(monkeypatch, workers, index, text):
    monkeypatch.setenv(TF_CONFIG, json.dumps({"cluster": {"worker": workers}, "task": {"index": index}}))
    with pytest.raises(UserError, match=re.escape(text)):
        devices.parse_tf_config()
