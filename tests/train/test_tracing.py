"""A stack that is gone takes all that it held with it."""

import gc
import weakref

import pytest

from tests.train.problems import make_problem
from tfperf.train.ensemble import Ensemble


@pytest.mark.parametrize("xla", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_nothing_holds_a_stack_that_was_closed(tmp_path, xla):
    card, problem = make_problem(tmp_path, replicas=4)
    ensemble = Ensemble(card, problem, [0] * 4)
    ensemble.run(2, xla)
    ensemble.evaluate(xla)
    stack = ensemble.stack
    held = [stack, stack.model, stack.losses, stack.optimizer, *stack.variables().values()]
    held = [weakref.ref(one) for one in held]
    del stack
    ensemble.look()
    ensemble.close()
    gc.collect()
    assert not [one() for one in held if one() is not None]
    ensemble.run(2, xla)  # and the next one goes on
    assert ensemble.step == 4
