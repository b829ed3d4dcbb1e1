"""Cards of runcards/ as ensembles: all that can be a stack is one."""

import pytest

from tests.workloads.keras.replicas.pairing import CARDS
from tfperf.console.stages import show_nothing
from tfperf.workloads.cards import load_card
from tfperf.workloads.keras.card import KerasCard
from tfperf.workloads.keras.inputs import read_data
from tfperf.workloads.keras.replicas.data import make_replica_data
from tfperf.workloads.keras.replicas.members import Members


@pytest.mark.parametrize("name", ["keras_tabular", "keras_text"])
def test_replicas_take_their_first_batch_as_a_stack(name):
    card = load_card(CARDS / f"{name}.yaml", ["replicas=2", "ensemble={}"])
    assert isinstance(card, KerasCard) and card.replicas is not None
    data = make_replica_data(card, read_data(card), show_nothing)
    members = Members(card, data, card.replicas, [0] * len(card.replicas))
    batches = members.draw_batches()
    factory = members.build_factory(members.build_template(batches), batches, show_nothing)
    assert factory.refusals == [] and factory.find_difference() is None
