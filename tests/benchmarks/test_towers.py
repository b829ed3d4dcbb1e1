"""The plain Keras program does what tfperf does, and the benchmark says what its rounds bear out."""

import json

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import plain_keras, towers, towers_side
from benchmarks.registry import REGISTRY
from benchmarks.towers import PROGRAMS, describe_goal, estimate_ratio, make_row
from tests.runcard.cards import write
from tfperf.errors import UserError
from tfperf.measure.confidence import ConfidenceInterval
from tfperf.place.step import build_pass
from tfperf.place.trainable import PassInputs
from tfperf.workloads.translate.cards import load_card
from tfperf.workloads.translate.corpus import Ragged, Split
from tfperf.workloads.translate.feeding import plan_training
from tfperf.workloads.translate.trainable import TrainableTranslator, make_method
from tfperf.workloads.translate.translator import select_input_ids
from tfperf.workloads.translate.vocabulary import END, PAD, START

MEASURE = REGISTRY["towers"].measure
ROWS, UNITS, LAYERS, WIDTH = 40, 6, 2, 4
CARD = f"""\
workload: translate
data: {{fixed_length: 9, vocabulary: 300, batch: 4, bucket_width: {WIDTH}}}
model: {{units: {UNITS}, layers: {LAYERS}}}
train: {{steps: 10}}
"""


@pytest.fixture(scope="module")
def part():
    random = np.random.default_rng(3)

    def side(lengths):
        return Ragged(random.integers(4, ROWS, lengths.sum()).astype(np.int32), np.cumsum([0, *lengths]))

    return towers_side.select_whole_buckets(Split(*(side(random.integers(2, 12, 60)) for _ in range(2))), WIDTH, 8)


def formed(part, batch, kept_ones):
    source, target = ([towers_side.get_sentence(s, i) for i in range(len(part))] for s in (part.source, part.target))
    return plain_keras.make_batches(source, target, batch, range(WIDTH, 13, WIDTH), 1, kept_ones)


def both(dtype, part, folder):
    """Loss and gradients by name of the two programs, at equal weights, on one batch."""
    card = load_card(write(folder, CARD), [f"engine.precision={dtype}"])
    ours, theirs = TrainableTranslator(card, ROWS), plain_keras.build_model(ROWS, UNITS, LAYERS, dtype)
    names = [v.path.removeprefix("translator/") for v in (*ours.embeddings, *ours.weights)]
    random, values = np.random.default_rng(4), {}
    for name, variable in zip(names, (*ours.embeddings, *ours.weights), strict=True):
        values[name] = tf.constant(random.normal(size=variable.shape), dtype)
    for variable in theirs.trainable_variables:
        variable.assign(values[variable.path])
    (source, target), labels, weights = next(iter(formed(part, 8, False)))
    whole = tf.concat([target, labels[:, -1:]], 1)
    rows = [tf.gather(values[n], ids) for n, ids in zip(names[:2], select_input_ids(source, whole), strict=True)]
    tokens = tf.cast(tf.reduce_sum(weights), dtype)
    given = PassInputs([values[n] for n in names[2:]], rows, (), (source, whole), None, tokens)
    got = build_pass(ours, make_method(card))(given)
    with tf.GradientTape() as tape:
        loss = plain_keras.make_loss(dtype)(labels, theirs([source, target]), weights)
    plain = tape.gradient(loss, theirs.trainable_variables)
    wanted = {v.path: tf.convert_to_tensor(g) for v, g in zip(theirs.trainable_variables, plain, strict=True)}
    found = {name: tf.convert_to_tensor(got.get_gradient(i)) for i, name in enumerate(names)}
    return (got.loss, found), (loss, wanted)


@pytest.mark.parametrize(("dtype", "close"), [("float32", 1e-5), ("float64", 1e-12)])
def test_losses_and_gradients_are_those_of_tfperf(dtype, close, part, tmp_path):
    (loss, gradients), (wanted, others) = both(dtype, part, tmp_path)
    assert loss.dtype == wanted.dtype == dtype and float(loss) > 1
    np.testing.assert_allclose(loss, wanted, rtol=close)
    assert gradients.keys() == others.keys() and len(others) == 3 + 3 * 2 * LAYERS
    for name, gradient in others.items():
        scale = np.abs(gradient).max()
        assert scale > 1e-4
        np.testing.assert_allclose(gradients[name] / scale, gradient / scale, atol=10 * close, err_msg=name)


@pytest.mark.parametrize("kept_ones", [False, True])
def test_the_plain_program_trains_on_the_same_pairs_in_as_many_steps(kept_ones, part, tmp_path):
    def pairs(batch):
        (source, target), labels, weights = (tf.nest.map_structure(np.asarray, side) for side in batch)
        assert np.array_equal(weights, labels != PAD) and np.array_equal(target[:, 1:], labels[:, :-1])
        assert np.all(target[:, 0] == START) and np.all((labels == END).sum(axis=1) == 1)
        return [(tuple(s[s != PAD]), tuple(t[t > END])) for s, t in zip(source, labels, strict=True)]

    batches = [pairs(batch) for batch in formed(part, 8, kept_ones)]
    sides = ([tuple(towers_side.get_sentence(s, i)) for i in range(len(part))] for s in (part.source, part.target))
    own = list(zip(*sides, strict=True))
    assert sorted(pair for batch in batches for pair in batch) == sorted(own)
    plan = plan_training(load_card(write(tmp_path, CARD)), part, 2, 0)
    assert len(plan.rows) == len(batches) and plan.dropped == 0

    def longest(pairs):
        return -(-max(max(len(s), len(t)) for s, t in pairs) // WIDTH) * WIDTH

    assert sorted(map(longest, batches)) == sorted(plan.lengths[:, 0, 0])  # the same buckets


def record(words=600.0, seconds=2.0, cpu=4.0, steps=10):
    return {"words": words, "seconds": seconds, "cpu_seconds": cpu, "steps": steps}


def test_a_row_is_paired_by_rounds():
    rounds = [
        {"plain": record(seconds=3.0), "tuned": record(seconds=2.0), "tfperf": record(seconds=2.0, cpu=2.0)},
        {"plain": record(seconds=6.0), "tuned": record(seconds=4.0), "tfperf": record(seconds=4.0, cpu=2.0)},
    ]
    found = make_row(2, rounds)
    assert found["plain words/s"] == pytest.approx(np.sqrt(200 * 100)) and found["rounds"] == 2
    assert found["ratio"] == "1.500 [1.500, 1.500]" and found["goal"] == "at least 1.3: reached"
    assert found["over tuned"] == "1.000 [1.000, 1.000]"
    assert found["words per CPU second, ratio"] == "2.000 [2.000, 2.000]"


def test_unlike_work_is_no_comparison():
    with pytest.raises(UserError, match=r"plain: 600\.0 words, 9 steps; tuned: 600\.0 words, 10 steps"):
        make_row(1, [{"plain": record(steps=9), "tuned": record(), "tfperf": record()}])


@pytest.mark.parametrize(
    ("goal", "interval", "words"),
    [
        (1.2, ConfidenceInterval(1.3, 1.2, 1.4), "at least 1.2: reached"),
        (1.2, ConfidenceInterval(1.1, 1.0, 1.19), "at least 1.2: missed"),
        (1.2, ConfidenceInterval(1.3, 1.19, 1.4), "at least 1.2: these rounds cannot tell"),
        (1.2, ConfidenceInterval(1.3), "at least 1.2: one round cannot tell"),
        (None, ConfidenceInterval(1.3, 1.2, 1.4), "none"),
    ],
)
def test_each_verdict(goal, interval, words):
    assert describe_goal(goal, interval) == words


def test_ratios_are_on_the_log_scale():
    found = estimate_ratio([1.0, 4.0], [1.0, 1.0])
    assert found.value == pytest.approx(2.0) and found.low is not None and found.low > 0


def test_programs_take_turns_and_an_interrupted_benchmark_goes_on(tmp_path, monkeypatch, capsys):
    asked, ends = [], [4]

    def run(command, request, stopped):
        if len(asked) in ends:
            raise KeyboardInterrupt
        asked.append((request["program"], request["card"]["placement"]["devices"]))
        return record()

    monkeypatch.setattr("benchmarks.record_store.child.run_subprocess", run)
    with pytest.raises(KeyboardInterrupt):
        list(MEASURE(only="2", rounds=3, folder=tmp_path))
    ends.clear()
    (found,) = MEASURE(only="2", rounds=3, folder=tmp_path)
    assert found["ratio"] == "1.000 [1.000, 1.000]"
    assert sorted(asked) == sorted([(name, 2) for name in PROGRAMS] * 3) and len({n for n, _ in asked[::3]}) == 3
    assert "round 3 of 3, 2 devices: plain 300 words/s" in capsys.readouterr().err


@pytest.mark.slow
def test_all_programs_run(tmp_path, monkeypatch):
    """On two devices, two epochs each; their losses fall alike."""
    monkeypatch.setattr(towers, "PAIRS", 512)
    monkeypatch.setattr(towers, "EPOCHS", 3)
    (found,) = MEASURE(only="2", rounds=1, folder=tmp_path)
    assert found["goal"] == "at least 1.3: one round cannot tell"
    losses = [json.loads(file.read_text())["record"]["last_epoch"] for file in sorted(tmp_path.glob("*.json"))]
    assert len(losses) == 3 and max(losses) < 1.02 * min(losses) < 8.2  # log 4000 = 8.29


def test_devices_are_chosen():
    with pytest.raises(UserError, match="got '3'; allowed: 1, 2, 4"):
        next(MEASURE(only="1,3"))
