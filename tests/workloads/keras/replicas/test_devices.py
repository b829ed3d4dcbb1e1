"""Replicas over several devices: logical CPUs, fixed before TensorFlow starts, so in processes of their own."""

import json
import subprocess
import sys

import pytest

PROGRAM = """
import sys

import tensorflow as tf

count, form = int(sys.argv[1]), sys.argv[2]
(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)

import hashlib
import json

import tfperf
from tests.workloads.keras.replicas import nets

x, y = nets.load()
keys = {"engine.xla": False}
fit = tfperf.ensemble(nets.build, replicas=5, seed=1, form=form).fit(
    x, y, epochs=2, batch_size=16, validation=0.2, keys=keys
)
print(json.dumps([hashlib.sha256(values.tobytes()).hexdigest() for values in fit.outcome.weights.values()]))
"""


def train(count, form):
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(count), form]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_lanes_over_two_devices_have_the_bits_of_one():
    assert train(2, "lanes") == train(1, "lanes")
