"""Programs that are the same are traced under the same names and shared; a stack that is gone takes all with it."""

import gc
import weakref

import numpy as np
import pytest
import tensorflow as tf

from tests.train.problems import make_ensemble, make_problem
from tfperf.train import programs
from tfperf.train.programs import trace
from tfperf.workloads.pdf.forms import build_form


@pytest.mark.parametrize("xla", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_nothing_holds_a_stack_that_was_closed(tmp_path, xla):
    card, problem = make_problem(tmp_path, replicas=4)
    ensemble = make_ensemble(card, problem)
    ensemble.run(2, xla)
    ensemble.evaluate(xla)
    loop = ensemble.largest_loop
    held = [loop, loop.stack, loop.stack.model, loop.stack.replica_losses, loop.optimizer]  # type: ignore[attr-defined]
    held = [weakref.ref(one) for one in (*held, *loop.list_variables().values())]
    del loop
    ensemble.gather_state()
    ensemble.close()
    gc.collect()
    assert not [one() for one in held if one() is not None]
    ensemble.run(2, xla)  # and the next one goes on
    assert ensemble.step == 4


STEPS = [tf.TensorSpec([], tf.int64)]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["shared", "folded"])
def test_equal_stacks_share_their_programs(tmp_path, form):
    """They are other replicas, with other data, masks and weights, and find what they would find alone."""
    card, problem = make_problem(tmp_path, replicas=4)
    shape = build_form(card, problem, form)
    alone = make_ensemble(card, problem, shape, stacks=2)
    for shard in alone.shards:
        alone._get_loop(shard).name = f"alone_{shard.indices[0]}"
    both = make_ensemble(card, problem, shape, stacks=2)
    for ensemble in (alone, both):
        ensemble.run(5, False)
        ensemble.evaluate(False)
    for name in ("steps", "losses"):
        first, second = (loop.get_program(name, False) for loop in both.build_loops())
        assert first.function is second.function and first.captures[-1] is not second.captures[-1]
        one, two = (loop.get_program(name, False) for loop in alone.build_loops())
        assert one.function is not two.function, "or the test shows nothing"
    for name, value in alone.gather_state().items():
        np.testing.assert_array_equal(value, both.gather_state()[name], err_msg=name)


def test_names_do_not_depend_on_what_was_traced_before(tmp_path):
    card, problem = make_problem(tmp_path, replicas=2)
    names = []
    for _ in range(2):
        ensemble = make_ensemble(card, problem)
        found = ensemble.largest_loop.get_program("steps", False).function
        names.append([found.name, *(child.name for child in found.children)])
        ensemble.close()
        tf.function(lambda x: x + 1)(tf.constant(1.0))
    assert names[0] == names[1] and len(names[0]) > 1


def test_the_first_program_of_a_process_is_named_as_later_ones_are():
    tf.compat.v1.reset_default_graph()
    first = trace(lambda count: count * 5, STEPS, False, "first")
    assert trace(lambda count: count * 5, STEPS, False, "first").function is first.function


def test_programs_of_other_content_never_share_a_name():
    def twice(count):
        return count * 2

    def thrice(count):
        return count * 3

    def loop(count):
        return tf.while_loop(lambda i: i < count, lambda i: (i + 3,), (tf.constant(0, tf.int64),))[0]

    def other_loop(count):
        return tf.while_loop(lambda i: i < count, lambda i: (i + 4,), (tf.constant(0, tf.int64),))[0]

    twice.__name__ = thrice.__name__ = loop.__name__ = other_loop.__name__ = "one"
    for number, pair in enumerate([(twice, thrice), (loop, other_loop)]):
        first, second, again = (trace(f, STEPS, False, f"same{number}") for f in (*pair, pair[0]))
        ten = tf.constant(10, tf.int64)
        assert [int(p(ten)) for p in (first, second, again)] == [int(f(ten)) for f in (*pair, pair[0])]
        assert first.function is again.function and first.function.name != second.function.name


def test_a_program_that_was_freed_keeps_its_name():
    """What XLA compiled for it stays in TensorFlow's memory, under that name."""
    variable = tf.Variable(1.0)
    first = trace(lambda count: variable * 2, STEPS, False, "freed")
    name = first.function.name
    del first
    gc.collect()
    assert "freed" not in programs.ALIVE
    assert trace(lambda count: variable * 2, STEPS, False, "freed").function.name == name
    assert trace(lambda count: variable * 3, STEPS, False, "freed").function.name != name


def test_a_name_that_many_programs_have_costs_none_of_them_many_tracings():
    traced, programs_of = [], {}

    def build(factor):
        def multiply(count):
            traced.append(factor)
            return tf.while_loop(lambda i: i < count, lambda i: (i + factor,), (tf.constant(0, tf.int64),))[0]

        return multiply

    for factor in [*range(1, 8), *range(1, 8)]:
        traced.clear()
        program = trace(build(factor), STEPS, False, "many")
        assert int(program(tf.constant(1, tf.int64))) == factor
        assert len(traced) <= 3, f"as many as {len(traced)} for factor {factor}"
        assert programs_of.setdefault(factor, program).function is program.function
    assert len({program.function.name for program in programs_of.values()}) == 7


def count_maps():
    with open("/proc/self/maps") as file:
        return len(file.readlines())


def test_xla_compiles_a_program_once_in_a_process():
    """What it compiles has memory of its own, which stays: a process has 65 530 such pieces, a step takes 543."""
    variable, grown = tf.Variable(tf.ones([8, 8])), []
    for _ in range(3):
        before = count_maps()
        program = trace(lambda count: variable @ tf.tanh(variable), STEPS, True, "once")
        np.testing.assert_allclose(program(tf.constant(1, tf.int64)), 8 * np.tanh(1) * np.ones((8, 8)), rtol=1e-6)
        del program
        gc.collect()
        grown.append(count_maps() - before)
    assert grown[0] > 0, "the test shows nothing"
    assert grown[1:] == [0, 0]


def test_errors_of_tracing_are_told(tmp_path):
    def wrong(count):
        return tf.matmul(tf.zeros([2, 3]), tf.zeros([2, 3]))

    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="must be equal"):
        trace(wrong, STEPS, False, "wrong")
