"""Programs that do what their placement says are not accused: presets, engines, optimizers, kernels, merges.

A few run always, in test_engines.py.
"""

import json

import pytest

from tests.place.clusters import CHEATING, carry_out
from tests.place.test_engines import TEXT


def optimizer(name, *arguments):
    return f"train.optimizer={{{', '.join([f'name: {name}', 'learning_rate: 0.01', *arguments])}}}"


CLIPPED = "global_clipnorm: 0.01"
DENSE, XLA, DROPOUT = "engine.embedding_gradients=dense", "engine.xla=true", "model.dropout=0.3"
MIRRORED, CENTRAL = ["placement.engine=mirrored"], ["placement.engine=central", "placement.merge=host"]
COPIES = ["placement.variables=mirrored"]
ON_TEXT = f"data={{{TEXT}, batch: 100}}"  # the numbers of pieces are more than is small
ON_TWO = {
    "exp1 nadam": ["placement.preset=Exp1", optimizer("Nadam"), DROPOUT],
    "exp3 clipped": ["placement.preset=Exp3", optimizer("Adam", CLIPPED)],
    "replicas": [*MIRRORED, optimizer("SGD", CLIPPED), DROPOUT],
    "exp1": ["placement.preset=Exp1"],
    "exp1 adafactor": ["placement.preset=Exp1", optimizer("Adafactor", "clipnorm: 0.01")],
    "exp1 muon": ["placement.preset=Exp1", optimizer("Muon", "weight_decay: 0.1"), DENSE],
    "exp2": ["placement.preset=Exp2"],
    "exp2 sgd": ["placement.preset=Exp2", optimizer("SGD", "momentum: 0.9", "nesterov: true"), DENSE],
    "exp3 lion": ["placement.preset=Exp3", optimizer("Lion"), XLA],
    "exp4 dropout": ["placement.preset=Exp4", DROPOUT, "model.layers=2"],
    "exp4 xla": ["placement.preset=Exp4", XLA, DROPOUT],
    "exp5 adamw": ["placement.preset=Exp5", optimizer("AdamW", "weight_decay: 0.1", "clipvalue: 0.01")],
    "on text": ["placement.preset=Exp3", ON_TEXT, DROPOUT, optimizer("Nadam")],
    "copies": COPIES,
    "copies ftrl": [*COPIES, optimizer("Ftrl", "beta: 0.1"), DENSE, XLA],
    "mixed": ["placement.variables=mirrored", "placement.embeddings=host", "placement.merge=host"],
    "slots": ["placement.slots=host", "placement.updates=device:1", optimizer("Adam", "amsgrad: true", CLIPPED)],
    "one each": ["placement.variables=device:1", "placement.embeddings=device:0", optimizer("Adadelta")],
    "merged on the host": ["placement.preset=Exp4", "placement.merge=host", optimizer("RMSprop", CLIPPED)],
    "doubles": ["placement.preset=Exp3", "engine.precision=float64", optimizer("Adagrad")],
    "replicas lion": [*MIRRORED, optimizer("Lion"), DENSE],
    "replicas on text": [*MIRRORED, ON_TEXT, DROPOUT, optimizer("Lamb")],
    "replicas xla": [*MIRRORED, XLA],
    "replicas on the host": [*MIRRORED, "placement.merge=host", optimizer("Adamax", "clipnorm: 0.01")],
    "ring": [*MIRRORED, "placement.merge=ring"],
    "ring dense": [*MIRRORED, "placement.merge=ring", DENSE, optimizer("Nadam", CLIPPED)],
    "hierarchical": [*MIRRORED, "placement.merge=hierarchical"],
    "hierarchical dense": [*MIRRORED, "placement.merge=hierarchical", DENSE, DROPOUT],
    "central": CENTRAL,
    "central sgd": [*CENTRAL, optimizer("SGD"), "engine.precision=float64", "model.layers=2"],
    "central momentum": [*CENTRAL, optimizer("SGD", "momentum: 0.9"), DENSE],
    "replicas sgd": [*MIRRORED, optimizer("SGD")],
    "central on text": [*CENTRAL, ON_TEXT],
    "copies on text": [*COPIES, ON_TEXT, DENSE],
    "central clipped": [*CENTRAL, optimizer("ScheduleFreeAdamW", CLIPPED), DENSE],
}
ON_FOUR = {
    "exp1 of four": ["placement.preset=Exp1", DROPOUT],
    "exp3 of four": ["placement.preset=Exp3", optimizer("Lamb"), DENSE],
    "exp4 of four": ["placement.preset=Exp4", ON_TEXT, optimizer("Nadam", CLIPPED)],
    "copies of four": [*COPIES, DROPOUT],
    "replicas of four": [*MIRRORED, optimizer("AdamW"), DROPOUT],
    "hierarchical of four": [*MIRRORED, "placement.merge=hierarchical"],
    "ring of four": [*MIRRORED, "placement.merge=ring", ON_TEXT],
    "central of four": [*CENTRAL, XLA],
}
ON_ONE = {
    "one": [],
    "one replica": [*MIRRORED, DROPOUT],
    "one on the host": ["placement.preset=Exp2", optimizer("SGD")],
}


def accused(folder, cards, devices):
    """Faults by name of the programs that have some."""
    carry_out(folder, {name: [f"placement.devices={devices}", *card] for name, card in cards.items()}, CHEATING)
    found = json.loads((folder / "faults.json").read_text())
    return {name: faults for name, faults in found.items() if faults}


@pytest.mark.slow
@pytest.mark.parametrize(("cards", "devices"), [(ON_TWO, 2), (ON_FOUR, 4), (ON_ONE, 1)])
def test_no_honest_program_is_accused(cards, devices, tmp_path):
    assert accused(tmp_path, cards, devices) == {}


def test_there_are_honest_programs_of_many_kinds():
    assert sum(map(len, (ON_TWO, ON_FOUR, ON_ONE))) >= 30
