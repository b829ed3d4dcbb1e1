"""How often a step reads and writes variables, in programs that ran, and held against what is needed."""

from collections import Counter

import keras
import pytest
import tensorflow as tf

from tfperf.place.devices import HOST
from tfperf.place.graphs import ProgramTensor, record_step
from tfperf.place.nodes import SMALL
from tfperf.place.traffic import count_moves, list_move_transfers
from tfperf.place.transfers import NeededUse
from tfperf.place.uses import UpdatedCopy, check_uses, list_uses
from tfperf.runcard.model_optimizer import ModelOptimizer

DEVICE = "/job:localhost/replica:0/task:0/device:CPU:1"
ENTRIES = (3, 4)


def uses(change):
    """Reads and writes of a variable in a call of a function of it."""
    variable = tf.Variable(tf.zeros(ENTRIES))

    def done():
        change(variable)  # and no value of it is asked for

    call = tf.function(done, autograph=False)
    call()
    (found,) = [one for one in record_step(call).tensors if one.what == "variable"]
    return found.reads, found.writes


def in_a_loop(variable):
    def body(i):
        variable.assign_sub(tf.gather(variable, [0, 1, 2]))
        return i + 1

    tf.while_loop(lambda i: i < 5, body, [0])


def in_branches(variable):
    def changed_by(change):
        return lambda: change(variable * 2.0, read_value=False)

    tf.cond(tf.timestamp() < 0.0, changed_by(variable.assign), changed_by(variable.assign_add))


@pytest.mark.parametrize(
    ("change", "want"),
    [
        (lambda variable: variable.assign_add(variable * 2.0), (1, 1)),
        (lambda variable: [variable.assign_sub(tf.ones(ENTRIES)) for _ in range(3)], (0, 3)),
        (lambda variable: variable.scatter_add(tf.IndexedSlices(tf.ones((1, 4)), [2])), (0, 1)),
        (in_a_loop, (5, 5)),
        (in_branches, (1, 1)),
    ],
    ids=["once", "thrice", "rows", "loop", "branch"],
)
def test_uses_of_a_variable_are_counted_as_often_as_they_ran(change, want):
    assert uses(change) == want


def tensors(*writes, reads=1):
    return [ProgramTensor("variable", f"v{k}", DEVICE, 2 * SMALL, reads, n) for k, n in enumerate(writes)]


NEEDED = [NeededUse("variable a", DEVICE, 2 * SMALL, 1, 1), NeededUse("slot a", DEVICE, 2 * SMALL, 1, 2)]


def test_variables_are_written_as_often_as_they_have_to_be():
    assert list(check_uses(tensors(2, 1), NEEDED)) == []
    for writes, fault in {(2, 2): "1 of 2 written 2 times a step; must be 1", (0, 2): "1 of 2 written 0 times"}.items():
        (told,) = check_uses(tensors(*writes), NEEDED)
        assert told.startswith(f"variables of 8.192 kB on CPU:1: {fault}") and told.endswith("variable a and 1 more")


def test_variables_are_read_as_often_as_they_have_to_be_at_most():
    assert list(check_uses(tensors(1, 2, reads=0), NEEDED)) == []
    assert list(check_uses(tensors(1, 2, reads=2), NEEDED)) == [
        "variables of 8.192 kB on CPU:1: read 4 times a step; must be 2 at most: variable a and 1 more"
    ]


def test_small_variables_may_be_used_as_one_likes():
    small = [one._replace(size=SMALL) for one in tensors(9, reads=9)]
    assert list(check_uses(small, [NeededUse("variable a", DEVICE, SMALL, 1, 1)])) == []


@pytest.mark.parametrize(
    ("optimizer", "variable", "slots"),
    [({"name": "SGD"}, 1, []), ({"name": "Nadam"}, 1, [1, 1]), ({"name": "AdamW", "weight_decay": 0.1}, 2, [1, 1])],
)
def test_an_update_writes_its_variable_and_each_slot(optimizer, variable, slots):
    """Weights decay by a write of their own."""
    weights = keras.Variable(tf.zeros(ENTRIES), name="weights")
    made = getattr(keras.optimizers, optimizer["name"])()
    made.build([weights])
    moves = count_moves(ModelOptimizer(**optimizer), [weights], HOST)
    found = list(list_uses(moves, [UpdatedCopy("weights", 48, DEVICE, HOST, 3)], made.variables))
    (own,) = [use for use in found if use.what == "weights"]
    assert (own.device, own.size, own.writes) == (DEVICE, 48, variable) and own.reads >= 3
    assert [use.writes for use in found if use.size == 48 and use is not own] == slots
    assert {use.device for use in found if use is not own} <= {HOST}


MOMENTUM = {"name": "RMSprop", "momentum": 0.5}


@pytest.mark.parametrize(
    ("optimizer", "fetched", "brought", "handed"),
    [
        ({"name": "RMSprop"}, 2, (1, 1), 0),  # its velocity, before and after; the step is brought to the variable
        (MOMENTUM, 3, (2, 0), 1),  # the momentum that was brought to the slot goes from there to the variable
        (MOMENTUM | {"centered": True}, 5, (3, 0), 1),
    ],
    ids=["computed", "handed on", "centered"],
)
def test_a_value_is_sent_from_where_it_was_read_to_where_it_is_assigned(optimizer, fetched, brought, handed):
    weights = keras.Variable(tf.zeros(ENTRIES), name="weights")
    moves = [move for move in count_moves(ModelOptimizer(**optimizer), [weights], HOST) if move.large_outputs]
    sent = Counter()
    for one in (one for move in moves for one in list_move_transfers(move, 1, "copy", "slots", "update")):
        sent[one.begin, one.end] += one.size  # type: ignore[assignment]
    want = {("slots", "update"): fetched, ("update", "slots"): brought[0], ("update", "copy"): brought[1]}
    assert +sent == +Counter(want | {("slots", "copy"): handed})
