"""Data of cards beside each other, in real datasets: which are the same, and how fast they come."""

import pytest

from tests.workloads.keras.running import write_card
from tfperf.workloads.cards import load_checked_card
from tfperf.workloads.keras.settings_trial import compare_inputs

CODE = """
import tensorflow as tf


def load(count=40, late=0, known=True, wait=False):
    def make(number):
        if wait:
            number = tf.numpy_function(pause, [number], tf.int64)
            number.set_shape(())
        return tf.fill((4,), tf.cast(number + late * tf.cast(number >= 35, tf.int64), tf.float32)), tf.fill((2,), 1.0)

    data = tf.data.Dataset.range(count)
    return (data if known else data.filter(lambda number: True)).map(make).batch(1)


def pause(number):
    import time

    time.sleep(0.01)
    return number
"""


@pytest.fixture
def compare(tmp_path):
    def make(**arguments):
        (tmp_path / "data_of_cards.py").write_text(CODE)
        path = write_card(tmp_path, data={"build": "data_of_cards.py:load", "arguments": arguments or None})
        return load_checked_card(path, ())

    return lambda request, *cards: compare_inputs([make(**one) for one in cards], request)["candidates"]


def test_first_batches_or_all_of_two_passes_are_digested(compare):
    base, late = (one["digests"] for one in compare({"digest": {}}, {}, {"late": 1}))
    assert [len(one) for one in base["values"]] == [16, 16] and base["cardinality"] == 40 and base == late
    base, late, fewer = (
        one["digests"] for one in compare({"digest": {"elements": None}}, {}, {"late": 1}, {"count": 39})
    )
    assert [len(one) for one in base["values"]] == [40, 40]
    assert base["values"][0][:35] == late["values"][0][:35] and base["values"][0][35] != late["values"][0][35]
    assert base["shapes"] == late["shapes"] and fewer["cardinality"] == 39
    assert compare({"digest": {}}, {"known": False})[0]["digests"]["cardinality"] < 0


def test_a_pass_that_takes_long_is_digested_in_part(compare):
    (slow,) = compare({"digest": {"elements": None, "seconds": 0.1}}, {"wait": True})
    assert 2 <= len(slow["digests"]["values"][0]) == len(slow["digests"]["values"][1]) < 40


def test_rates_are_those_of_the_data_or_of_the_step(compare):
    found = compare({"steps": [0.0, 0.05], "turns": 2, "seconds": 0.4}, {}, {"wait": True})
    assert [[len(one) for one in each["rates"]] for each in found] == [[2, 2], [2, 2]]
    assert max(found[1]["rates"][0]) < 100 and max(found[0]["rates"][1] + found[1]["rates"][1]) < 20.5


def test_a_card_whose_data_fail_has_a_fault_and_the_others_go_on(compare):
    good, bad = compare({"digest": {}}, {}, {"count": 0})
    assert "digests" in good and "no batch" in bad["fault"]
