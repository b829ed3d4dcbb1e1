"""Iterators of datasets that a loop makes anew in each step."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.trace.profiles import us, write
from tests.trace.test_findings import CALL, MARK, find
from tfperf.trace.attribution import read_attribution
from tfperf.trace.capture import capture
from tfperf.trace.findings import list_findings
from tfperf.trace.notes import parse_notes

MAKE, NEXT = "EagerLocalExecute: MakeIterator", "EagerLocalExecute: IteratorGetNext"


def list_steps(made: range, freed: int = 300) -> tuple[list[Any], list[Any]]:
    """Python's events and operations of eight steps of 1 ms; in those `made` an iterator is made, filled and ended."""
    python: list[Any] = [("train", 1000 * i, 1000, MARK) for i in range(8)]
    python += [("learn", 1000 * i + 600, 400, CALL) for i in range(8)]
    for i in made:
        python += [(MAKE, 1000 * i, 50), (NEXT, 1000 * i + 50, 200), ("TFE_DeleteTensorHandle", 1000 * i + 260, freed)]
    return python, [("dense/MatMul:MatMul", 1000 * i + 610, 380) for i in range(8)]


def test_what_iterators_take_is_one_finding(tmp_path):
    python, main = list_steps(range(8))
    found = find(tmp_path, python, main, "loop")
    first = found[0]
    # of 0.55 ms a batch that is ready takes 0.15; of the last step what comes after its call is not known
    assert first.rule == "input" and first.ms == pytest.approx(0.55, rel=0.01)
    assert first.gain_ms == pytest.approx(first.ms - 0.15, rel=0.05) and "before the loop" in first.change
    assert not any(one.rule == "epoch" for one in found)


def test_epochs_of_a_fit_are_no_iterators_of_steps(tmp_path):
    python, main = list_steps(range(8))
    found = find(tmp_path, python, main, "keras")
    assert "epoch" in [one.rule for one in found] and not any("anew" in one.what for one in found)


def test_an_iterator_for_many_steps_is_made_once_and_what_is_freed_later_is_not_its_end(tmp_path):
    python, main = list_steps(range(0, 8, 4))
    python += [("TFE_DeleteTensorHandle", 1000 * i + 100, 450) for i in (2, 6)]  # a large tensor
    rules = [one.rule for one in find(tmp_path, python, main, "loop")]
    assert "input" not in rules and "epoch" not in rules


@pytest.mark.parametrize("freed, told", [(3820, True), (2820, False)])
def test_the_iterator_of_a_loop_over_a_dataset_ends_before_the_next_is_made(freed, told, tmp_path):
    """Four steps of 1 ms for each of three; what is freed between their last call and the next counts, a tensor not."""
    python: list[Any] = [("train", 1000 * i, 1000, MARK) for i in range(12)]
    python += [("learn", 1000 * i + 200, 600, CALL) for i in range(12)]
    python += [(MAKE, 4000 * k, 50) for k in range(3)]
    python += [("TFE_DeleteTensorHandle", freed + 4000 * k, 150) for k in range(3)]
    main = [("dense/MatMul:MatMul", 1000 * i + 210, 580) for i in range(12)]
    lines = {"/host:CPU": {"p": us(*python), "m": us(*main)}}
    told_by = parse_notes({"own": True, "optimizers": [], "program": "loop"})
    account = read_attribution(write(tmp_path / "vm.xplane.pb", lines), told_by).account
    assert 1e3 * account.sum("epoch") * account.steps == pytest.approx(3 * 50 + 2 * 150 * told)


def test_what_is_freed_shortly_ends_no_iterator(tmp_path):
    """Each step frees tensors for 90 us, which is less than an iterator takes."""
    python, main = list_steps(range(8), freed=90)
    (one,) = [one for one in find(tmp_path, python, main, "loop") if one.rule == "input"]
    assert one.ms == pytest.approx(0.25, rel=0.01)


def test_an_iterator_in_each_step_is_told_from_one_for_all(tmp_path):
    x = np.random.default_rng(1).normal(size=(512, 16)).astype("float32")
    data = tf.data.Dataset.from_tensor_slices(x).shuffle(512).repeat().batch(32)
    weight, only = tf.Variable(tf.ones((16, 16))), iter(data)

    @tf.function
    def learn(batch: Any) -> Any:
        weight.assign_add(1e-6 * tf.matmul(batch, batch @ weight, transpose_a=True))
        return tf.reduce_sum(weight)

    for anew in (True, False):
        with capture(tmp_path / str(anew), steps=6, skip=3) as window:
            for number in range(16):
                with window.step(number):
                    learn(next(iter(data) if anew else only)).numpy()
        found = read_attribution(tmp_path / str(anew))
        told = [one for one in list_findings(found) if "an iterator of a dataset anew" in one.what]
        assert bool(told) == anew, (anew, list_findings(found))
        assert found.account.iterators == (found.account.steps if anew else 0)


def test_in_a_loop_without_compiled_calls_no_iterator_is_known_to_end(tmp_path):
    """Two passes of an eager loop, which frees a large tensor in the first."""
    python, main = list_steps(range(0, 8, 4))
    python = [one for one in python if one[0] != "learn"] + [("TFE_DeleteTensorHandle", 2100, 450)]
    assert not any(one.rule == "epoch" for one in find(tmp_path, python, main, "loop"))
