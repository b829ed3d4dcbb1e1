"""Every optimizer of a card, on every engine and placement, on 1, 2, 3 and 5 devices: the weights of one device.

The whole table takes half an hour: `pytest -m slow tests/place/test_optimizers.py -s` prints it.
"""

import json
from typing import get_args

import numpy as np
import pytest

from tests.place.clusters import carry_out, carry_out_on_workers
from tests.place.test_engines import EXACT, RIGHT, deviation
from tfperf.runcard.model_optimizer import Rule

OPTIMIZERS = {
    "SGD": "{name: SGD, learning_rate: 2.0, momentum: 0.9, nesterov: true}",
    "RMSprop": "{name: RMSprop, learning_rate: 0.01, momentum: 0.5, centered: true, epsilon: 1.0e-4}",
    "Adam": "{name: Adam, learning_rate: 0.01, amsgrad: true}",
    "AdamW": "{name: AdamW, learning_rate: 0.01, weight_decay: 0.1}",
    "Adamax": "{name: Adamax, learning_rate: 0.01}",
    "Nadam": "{name: Nadam, learning_rate: 0.01, clipnorm: 0.01}",
    "Adagrad": "{name: Adagrad, learning_rate: 0.5, clipvalue: 1.0e-3}",
    "Adadelta": "{name: Adadelta, learning_rate: 10.0}",
    "Ftrl": "{name: Ftrl, learning_rate: 0.5, l2_regularization_strength: 1.0e-3, beta: 0.1}",
    "Lion": "{name: Lion, learning_rate: 0.01}",
    "ScheduleFreeAdamW": "{name: ScheduleFreeAdamW, learning_rate: 0.01, warmup_steps: 5}",
    "Adafactor": "{name: Adafactor, learning_rate: 0.05}",
    "Lamb": "{name: Lamb, learning_rate: 0.05, weight_decay: 0.01}",
    "Muon": "{name: Muon, learning_rate: 0.01, exclude_layers: [projection]}",
}
SIGNS = ("Lion", "Muon")  # where the sign of what rounding leaves decides: one update of equal gradients
PLACEMENTS = {
    **{name: [f"placement.preset={name}"] for name in ("Exp1", "Exp2", "Exp3", "Exp4")},
    "copies": ["placement.variables=mirrored"],
    "mirrored": ["placement.engine=mirrored"],
    "central": ["placement.engine=central", "placement.merge=host"],
}
MULTIWORKER = ["placement.engine=multiworker", "placement.merge=ring"]


def call(optimizer, placement):
    return f"{'update' if optimizer in SIGNS else 'steps'}_{optimizer}_{placement}"


def cards(devices, placements):
    return {
        call(optimizer, placement): [
            *EXACT, f"placement.devices={devices}", f"train.optimizer={block}", *overrides
        ]
        for optimizer, block in OPTIMIZERS.items() for placement, overrides in placements.items()
    }  # fmt: skip


def test_every_optimizer_is_in_the_table():
    assert set(OPTIMIZERS) == set(get_args(Rule))


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Weights of each optimizer on one device."""
    folder = tmp_path_factory.mktemp("alone")
    carry_out(folder, cards(1, {"one": []}))
    return folder


def deviations(folder, alone, placement):
    """Largest deviation of each optimizer's weights from one device's."""
    found = {}
    for optimizer in OPTIMIZERS:
        name, reference = call(optimizer, placement), call(optimizer, "one")
        found[optimizer] = deviation(folder, name, reference, alone)
        assert np.isfinite(np.load(folder / f"{name}.npz")["losses"]).all()
    return found


def accusations(folder, placement):
    """Faults of all optimizers' programs, which are honest, each with its program's name."""
    names = [call(optimizer, placement) for optimizer in OPTIMIZERS]
    return [f"{name}: {one}" for name in names for one in json.loads((folder / f"{name}.json").read_text())["faults"]]


def show(devices, table):
    print(f"\n{devices} devices, largest deviation from one device, float64")
    print(" " * 18 + "".join(f"{placement:>12}" for placement in table))
    for optimizer in OPTIMIZERS:
        print(f"{optimizer:18}" + "".join(f"{column[optimizer]:12.1e}" for column in table.values()))


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 2, 3, 5])
def test_every_optimizer_everywhere(devices, alone, tmp_path):
    carry_out(tmp_path, cards(devices, PLACEMENTS))
    for name, overrides in cards(devices, {"workers": MULTIWORKER}).items():
        workers = carry_out_on_workers(tmp_path, {name: overrides}, devices)
    columns = {placement: (tmp_path, placement) for placement in PLACEMENTS}
    columns |= {f"worker {number}": (folder, "workers") for number, folder in enumerate(workers)}
    table = {name: deviations(folder, alone, placement) for name, (folder, placement) in columns.items()}
    show(devices, table)
    told = [f"{name}: {one}" for name, column in columns.items() for one in accusations(*column)]
    assert not told, "\n".join(told)
    assert max(max(column.values()) for column in table.values()) < RIGHT
    # the last bits of the update may be rounded by another kernel
    assert max(column[name] for column in table.values() for name in SIGNS) < 1e-15
