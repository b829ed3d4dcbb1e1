"""Which loop takes the steps of a Keras model, and how it is compiled: what is compared, and what is not."""

from types import SimpleNamespace

import pytest

from tests.workloads.keras.test_fit import prepare
from tfperf.workloads.keras.choices import LoopWishes, _list_candidates


@pytest.mark.slow
def test_both_loops_are_compared_from_the_same_state(tmp_path):
    training = prepare("build_linear", "load", xla="auto", epochs=100_000)
    assert training.choices.loop == "tfperf" and {*training.choices.ms_per_step} == {"graph", "XLA loop", "XLA step"}


@pytest.mark.parametrize("word", ["loop", "step"])
def test_a_compilation_that_the_card_names_is_the_only_candidate(word):
    feed = SimpleNamespace(has_texts=False, compilations=("graph", "XLA loop", "XLA step"))
    found = _list_candidates(LoopWishes(xla=word, steps_per_call=None), feed)
    assert [*found] == [f"XLA {word}"]


@pytest.mark.slow
@pytest.mark.parametrize("word", ["loop", "step"])
def test_a_compilation_that_the_card_names_is_compared_alone(word):
    training = prepare("build_mlp", "load", xla=word)
    assert (training.choices.loop, training.choices.reason) == ("tfperf", "")
    assert [*training.choices.ms_per_step] == [training.choices.compilation] == [f"XLA {word}"]
    assert training.call(10) == 10


def test_xla_is_not_tried_where_it_would_take_longer_than_all_steps(tmp_path):
    assert [*prepare("build_mlp", "load", xla="auto").choices.ms_per_step] == ["graph"]
