"""The steps of a trial: the same batches in every pass, and what is said of them."""

from itertools import cycle
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from tests.workloads.translate.test_corpus import card_of
from tests.workloads.translate.test_feeding import part_of
from tfperf.place.local_workers import ALONE, Followers, ForeignPeers, Leader, Peers
from tfperf.workloads.translate.feeding import plan_training
from tfperf.workloads.translate.window import EVENTS_A_COLUMN, Window, count_whole_steps, plan_window, summarise_work

LAYERS = 3
SCALED = "data.batch=3", "data.scaling_devices=4"


class Recorder:
    """An engine that takes steps by looking at their batches, and traces a function at chosen calls."""

    model = SimpleNamespace(card=SimpleNamespace(model=SimpleNamespace(layers=LAYERS)))

    def __init__(self, traced_at=()):
        self.seen, self.traced_at, self.calls = [], traced_at, 0

    def call(self, iterator, count):
        for _ in range(int(count)):
            pairs, _ = next(iterator)
            self.seen.append([np.asarray(ids) for device in pairs for ids in device])
        self.calls += 1
        if self.calls in self.traced_at:
            tf.function(lambda x: x + 1)(tf.ones([]))
        return (tf.zeros([int(count)]),)


def test_every_pass_takes_the_same_batches_which_the_first_has_warmed(tmp_path):
    card, part = card_of(tmp_path, *SCALED, "data.scaling=weak"), part_of(60)
    plan = plan_window(card, part, 2, 6)
    window = Window(engine := Recorder(), part, plan, 2)  # type: ignore[arg-type]
    assert len(window.run()) == 6 and window.calls == 3
    found = [window.measure_pass() for _ in range(2)]
    assert [(one.steps, one.clean) for one in found] == [(6, True)] * 2 and len(engine.seen) == 18
    for first, second, third in zip(engine.seen[:6], engine.seen[6:12], engine.seen[12:], strict=True):
        assert all(np.array_equal(a, b) and np.array_equal(a, c) for a, b, c in zip(first, second, third, strict=True))
    assert [ids.shape[1] for ids in engine.seen[0]] == plan.lengths[0].ravel().tolist()


def test_a_pass_in_which_something_is_traced_is_not_clean(tmp_path):
    card, part = card_of(tmp_path, "data.batch=3"), part_of(60)
    window = Window(Recorder(traced_at=(4,)), part, plan_window(card, part, 2, 4), 2)  # type: ignore[arg-type]
    assert [window.measure_pass().clean for _ in range(3)] == [True, False, True]


def test_a_window_knows_how_long_its_steps_are_and_whether_its_steps_are_alike(tmp_path):
    card, part = card_of(tmp_path, "data.batch=3"), part_of(60)
    plan = plan_window(card, part, 2, 4)
    window = Window(Recorder(), part, plan, 2)  # type: ignore[arg-type]
    assert window.events == pytest.approx(LAYERS * EVENTS_A_COLUMN * plan.lengths.sum() / 2) and not window.alike
    assert window.lengths == pytest.approx(plan.lengths.sum(axis=2).mean(axis=0))
    plan.lengths[:] = plan.lengths[:1]
    assert Window(Recorder(), part, plan, 2).alike and len(window.call(1)) == 1  # type: ignore[arg-type]


def test_the_first_steps_go_on_over_epochs(tmp_path):
    card, part = card_of(tmp_path, "data.batch=3"), part_of(20)  # three steps an epoch
    found, plans = plan_window(card, part, 2, 7), [plan_training(card, part, 2, epoch) for epoch in range(3)]
    for name in ("rows", "lengths", "pieces"):
        assert np.array_equal(getattr(found, name), np.concatenate([getattr(p, name) for p in plans])[:7])
    assert [count_whole_steps(steps, 10) for steps in (1, 10, 11)] == [10, 10, 20]


def described(folder, devices, *overrides, pairs=100, seed=0):
    card, part = card_of(folder, *overrides), part_of(pairs, seed)
    return summarise_work(card, part, plan_window(card, part, devices, 5))


def test_strong_scaling_is_the_same_work_on_any_number_of_devices(tmp_path):
    alone, *others = (described(tmp_path, n, *SCALED, "data.scaling=strong") for n in (1, 2, 3, 4))
    for n, other in enumerate(others, 2):
        same = ("batches", "columns", "words", "padding_share", "pairs", "steps", "scaling")
        assert {key: other[key] for key in same} == {key: alone[key] for key in same}
        assert (alone["batch"], other["batch"]) == (12, 12 // n) and other["lengths"] != alone["lengths"]


def test_weak_scaling_has_the_same_lengths_on_any_number_of_devices(tmp_path):
    alone, *others = (described(tmp_path, n, *SCALED, "data.scaling=weak") for n in (1, 2, 3, 4))
    for n, other in enumerate(others, 2):
        assert {key: other[key] for key in ("lengths", "columns", "batch")} == {
            key: alone[key] for key in ("lengths", "columns", "batch")
        }
        assert other["pairs"] == 3 * n and other["batches"] != alone["batches"]


@pytest.mark.parametrize(
    "overrides", [["data.batch=2"], ["seed=1"], ["data.bucket_width=1"], ["data.buckets=none"]], ids=str
)
def test_other_batches_are_other_work(tmp_path, overrides):
    one, other = (described(tmp_path, 2, *SCALED, "data.scaling=weak", *more) for more in ([], overrides))
    assert one["batches"] != other["batches"] and one["lengths"] != other["lengths"]


def test_other_texts_are_other_work(tmp_path):
    one, other = (described(tmp_path, 2, *SCALED, "data.scaling=strong", "data.shuffle=false", seed=s) for s in (0, 1))
    assert one["batches"] != other["batches"]


def test_padding_and_words_are_of_the_steps_themselves(tmp_path):
    card, part = card_of(tmp_path, *SCALED, "data.scaling=strong"), part_of(100)
    found = summarise_work(card, part, plan := plan_window(card, part, 2, 5))
    source, target = (side.lengths[plan.rows] for side in (part.source, part.target))
    assert found["words"] == source.sum() + target.sum()
    positions = plan.rows.shape[2] * plan.lengths.sum()
    assert found["padding_share"] == pytest.approx(1 - (found["words"] + 2 * plan.rows.size) / positions)
    assert found["columns"] == pytest.approx(positions / plan.rows.size)


def answers(enough, count=4):
    """What a rule says of one sample after the other."""
    return [enough([1.0] * n, 1.0 * n, 1.0 * n) for n in range(1, count + 1)]


def test_workers_take_as_many_samples_as_the_first_one(monkeypatch):
    def rule(samples, timed, passed):
        return "interval" if len(samples) == 3 else ""

    lines = []
    inputs = [SimpleNamespace(write=lines.append, flush=lambda: None)]
    assert answers(Followers(inputs).agree(rule), 3) == ["", "", "interval"]  # type: ignore[arg-type]
    assert lines == ["\n", "\n", "interval\n"]
    reader = iter([*lines, ""])
    monkeypatch.setattr("sys.stdin", SimpleNamespace(readline=lambda: next(reader)))
    led = Leader().agree(lambda *_: "budget")
    assert answers(led, 4) == ["", "", "told", "told"], "the end of the input ends it, too"
    assert Peers().agree(rule) is rule


def test_workers_of_a_foreign_cluster_take_a_fixed_number():
    rule = cycle([""])
    assert answers(ForeignPeers().agree(lambda *_: next(rule)), ALONE) == [""] * (ALONE - 1) + ["told"]
