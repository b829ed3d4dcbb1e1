"""Stopped replicas leave the stack: who is left sees rounding at most, and nothing before."""

from contextlib import nullcontext

import numpy as np
import pytest
import tensorflow as tf

from tests.train.problems import checkpoints_in, make_ensemble, make_problem, signal_at
from tfperf.errors import CardError, Interrupted
from tfperf.signals import Signals
from tfperf.train.choices import CandidateTiming, Choices
from tfperf.train.retirement import Retirement, make_retirement
from tfperf.train.shards import StackLayout
from tfperf.train.stopping import ReplicaState
from tfperf.train.trainer import Trainer
from tfperf.workloads.pdf.tolerance import Chi2Check

FAST = ["train.stopping.patience=5", "train.optimizer={name: Nadam, learning_rate: 0.05}"]
REPLICAS, STEPS = 8, 60
AT = (15, 30, 45)


def train(folder, at=AT, change=lambda ensemble: None, per_call=10, xla=False, precision="float64", stacks=1):
    """The ensemble after a training, its trainer, and its state at each retirement step (before it shrinks)."""
    card, problem = make_problem(folder, FAST, precision=precision, replicas=REPLICAS, steps=STEPS)
    ensemble, seen = make_ensemble(card, problem, stacks=stacks), {}
    change(ensemble)
    trainer = Trainer(
        ensemble,
        xla,
        per_call,
        Retirement(ensemble.layout, STEPS, at, 0.0),
        checkpoints_in(folder / "checkpoints"),
        Chi2Check(card, problem),
    )

    def keep_state(_):
        seen[ensemble.step] = {name: np.copy(value) for name, value in ensemble.gather_state().items()}

    keep_state(None)
    trainer.train(Signals(), keep_state)
    return ensemble, trainer, seen


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return train(tmp_path_factory.mktemp("on")), train(tmp_path_factory.mktemp("off"), at=())


def test_stack_takes_the_smallest_size_that_holds_those_who_run(pair):
    (ensemble, _, seen), _ = pair
    assert len(ensemble.sizes) > 2, "the stack shrank less than twice: the tests show little"
    sizes = (8, 6, 4, 2, 1)
    now = 8
    for step in AT:
        if step in seen:
            running = np.sum(seen[step]["stopping/state"] == ReplicaState.RUNNING)
            new = min(s for s in sizes if s >= max(running, 1))
            assert (step, new) in ensemble.sizes or (new == now)
            now = new
    assert now == ensemble.size


def test_no_bit_changes_before_the_stack_shrinks(pair):
    (ensemble, _, on), (_, _, off) = pair
    first = ensemble.sizes[1][0]
    common = [step for step in on if step <= first and step in off]
    assert len(common) > 1
    for step in common:
        for name, value in on[step].items():
            np.testing.assert_array_equal(value, off[step][name], err_msg=f"{name} at step {step}")


def test_best_weights_with_and_without_retirement_agree(pair):
    (on, _, _), (off, _, _) = pair
    one, other = on.gather_state(), off.gather_state()
    for name in ("state", "best_step", "stop_step"):
        np.testing.assert_array_equal(one[f"stopping/{name}"], other[f"stopping/{name}"])
    for name, value in on.get_best_weights().items():
        np.testing.assert_allclose(value, off.get_best_weights()[name], rtol=0, atol=1e-9, err_msg=name)


def test_history_of_the_retired_is_nan_and_theirs_alone(pair):
    (_, one, _), (_, other, _) = pair
    on, off = one.make_history(), other.make_history()
    rows = [(i, list(off.step).index(s)) for i, s in enumerate(on.step) if s in off.step]
    assert len(rows) > 2
    for name in ("training", "validation", "experimental", "positivity"):
        for i, j in rows:
            np.testing.assert_allclose(on.metrics[name][i], off.metrics[name][j], rtol=1e-5, atol=1e-12)


@pytest.mark.slow
def test_steps_per_call_change_no_bit(pair, tmp_path):
    (want, _, _), _ = pair
    got, _, _ = train(tmp_path, per_call=7)
    assert got.sizes == want.sizes
    for name, value in want.gather_state().items():
        np.testing.assert_array_equal(value, got.gather_state()[name], err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("step", [7, 15, 30, 44])
def test_training_resumes_to_the_same_bits_from_any_step(pair, tmp_path, step):
    (want, _, _), _ = pair

    card, problem = make_problem(tmp_path, FAST, precision="float64", replicas=REPLICAS, steps=STEPS)
    retirement = Retirement(StackLayout(REPLICAS), STEPS, AT, 0.0)
    ensemble = make_ensemble(card, problem)
    folder = checkpoints_in(tmp_path / "checkpoints")
    first = Trainer(ensemble, False, step % 15 or 15, retirement, folder, Chi2Check(card, problem))
    with pytest.raises(Interrupted):
        first.train(signal_at(ensemble, step), lambda _: None)
    ensemble.close()
    again = make_ensemble(card, problem)
    second = Trainer(again, False, 10, retirement, folder, Chi2Check(card, problem))
    assert second.resume()[0] == step
    assert again.size == [size for since, size in want.sizes if since < step][-1]
    second.train(Signals(), lambda _: None)
    assert again.sizes == want.sizes
    for name, value in want.gather_state().items():
        np.testing.assert_array_equal(value, again.gather_state()[name], err_msg=name)


@pytest.mark.slow
def test_quarantined_replica_keeps_a_slot_while_there_is_room(tmp_path):
    """The others sit where they would sit, and get the same bits, as long as the sizes are the same."""

    def poison(ensemble):
        kernel = ensemble.largest_loop.stack.model.hidden[1].kernel
        value = kernel.numpy()
        value[longest] = np.nan
        kernel.assign(value)

    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir()
    healthy, _, seen = train(tmp_path / "a", precision="float32")
    stop = healthy.gather_state()["stopping/stop_step"]
    state = healthy.gather_state()["stopping/state"]
    longest = int(np.argmax(np.where(state == ReplicaState.RUNNING, STEPS, stop)))
    broken, _, other = train(tmp_path / "b", change=poison, precision="float32")
    assert broken.gather_state()["stopping/state"][longest] == ReplicaState.QUARANTINED
    shrunk = [size for size in healthy.sizes if size in broken.sizes]
    assert len(shrunk) > 1, "no stack in common: the test shows nothing"
    last = max(step for step in seen if step in other and [s for s in healthy.sizes if s[0] < step] == [
        s for s in broken.sizes if s[0] < step])  # fmt: skip
    assert last > shrunk[1][0]
    others = np.arange(REPLICAS) != longest
    for name, value in seen[last].items():
        if value.ndim:
            np.testing.assert_array_equal(value[others], other[last][name][others], err_msg=name)


@pytest.fixture(scope="module")
def four(tmp_path_factory):
    """Four stacks of two; replicas change places among them when some are left out."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tf.config.threading, "get_intra_op_parallelism_threads", lambda: 2)
        return train(tmp_path_factory.mktemp("four"), stacks=4)[0]


@pytest.mark.slow
def test_stacks_are_left_out(pair, four):
    (one, _, _), _ = pair
    assert len(four.sizes) > 1 and len(four.shards) < 4, "no stack was left out: the test shows nothing"
    for name in ("state", "best_step", "stop_step"):
        np.testing.assert_array_equal(one.gather_state()[f"stopping/{name}"], four.gather_state()[f"stopping/{name}"])
    for name, value in one.get_best_weights().items():
        np.testing.assert_allclose(value, four.get_best_weights()[name], rtol=0, atol=1e-9, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("step", [25, 40])
def test_a_training_some_of_whose_stacks_are_left_out_is_resumed(four, tmp_path, monkeypatch, step):
    monkeypatch.setattr(tf.config.threading, "get_intra_op_parallelism_threads", lambda: 2)
    card, problem = make_problem(tmp_path, FAST, precision="float64", replicas=REPLICAS, steps=STEPS)
    folder, lives = checkpoints_in(tmp_path / "checkpoints"), []
    for signals in (step, None):
        again = make_ensemble(card, problem, stacks=4)
        trainer = Trainer(again, False, 10, Retirement(again.layout, STEPS, AT, 0.0), folder, Chi2Check(card, problem))
        lives.append(trainer.resume() if folder.has_any() else (0, []))
        with pytest.raises(Interrupted) if signals else nullcontext():
            trainer.train(signal_at(again, signals) if signals else Signals(), lambda _: None)
    assert lives == [(0, []), (step, [])]
    assert again.sizes == four.sizes
    for name, value in four.gather_state().items():
        np.testing.assert_array_equal(value, again.gather_state()[name], err_msg=name)


def test_times_are_of_the_stacks_that_took_steps(tmp_path):
    """A stack whose replicas have all stopped takes none: a step of the others is no step of all."""

    def stop_the_last(ensemble):
        ensemble.build_loops()[1].stopping.state.assign(np.full(REPLICAS // 2, ReplicaState.STOPPED))

    _, trainer, _ = train(tmp_path, at=(), change=stop_the_last, stacks=2)
    assert list(trainer.seconds_per_step) == [REPLICAS // 2]


def test_as_many_stacks_take_steps_at_the_same_time_as_there_are_threads(tmp_path, monkeypatch):
    """Of a TensorFlow that was started before, too, which says 0 where nobody told it how many."""
    monkeypatch.setattr(tf.config.threading, "get_intra_op_parallelism_threads", lambda: 0)
    card, problem = make_problem(tmp_path, replicas=8)
    told, untold = (make_ensemble(card, problem, stacks=4, threads=threads) for threads in (2, None))
    assert (told.layout.side, told.layout.rounds, untold.layout.side) == (2, 2, 4)
    told.restore({**told.snapshot()})
    assert told.layout.side == 2


@pytest.mark.parametrize(
    ("array", "value"),
    [
        ("rows", [0, 1, 2, 2]), ("rows", [0, 1, 2, -1]), ("rows", [0, 1, 2, 4]), ("rows", [0, 1, 2]),
        ("slots", [0, 4]), ("slots", [-1, 5]), ("slots", [2, 1]), ("slots", []),
    ],
)  # fmt: skip
def test_stacks_that_cannot_be_are_refused(tmp_path, array, value):
    card, problem = make_problem(tmp_path, replicas=4)
    ensemble = make_ensemble(card, problem, stacks=2)
    snapshot = ensemble.snapshot() | {f"stack/{array}": np.array(value, np.int64)}
    if value == [0, 1, 2]:
        snapshot["stack/slots"] = np.array([1, 2])
    with pytest.raises(ValueError, match="of other"):
        ensemble.restore(snapshot)


def make_auto(layout, compile_seconds, ms_per_step):
    form = ("shared", "grouped")
    tried = CandidateTiming(*form, True, compile_seconds, ms_per_step), CandidateTiming(*form, False, 0.1, 1e9)
    choices = Choices(
        form=form[0], products=form[1], xla=True, losses_xla=False, steps_per_call=10, threads=2, cpu_stacks=1,
        tried=tried,
    )  # fmt: skip
    return make_retirement(20_000, "auto", layout, choices)


def test_auto_looks_where_a_smaller_stack_pays():
    slow = make_auto(StackLayout(100), 3.0, 10.0)  # a new stack costs 390 steps
    assert slow.layout.list_new_sizes() == [7, 13, 25, 50, 75] and slow.layout.list_known_sizes() == []
    assert slow.retire_at == tuple(range(1000, 20_000, 1000))
    assert slow.choose_size(1000, 100, 80) == 100 and slow.choose_size(1000, 100, 75) == 75
    assert slow.choose_size(1500, 100, 10) == 100, "no step of the plan"
    assert slow.choose_size(15_000, 100, 80) == 100 and slow.choose_size(15_000, 100, 76) == 100
    assert slow.choose_size(15_000, 25, 8) == 25, "12 slots for half of 5000 steps save 300 steps"
    assert [slow.find_next_step(step) for step in (0, 1000, 18_000, 19_000)] == [1000, 2000, 19_000, 20_000]
    assert make_auto(StackLayout(100), 3.0, 0.1).retire_at == (), "compiling takes longer than training"


def test_stacks_are_left_out_before_smaller_ones_are_compiled():
    ten = StackLayout(100, 10, 2)
    assert ten.list_known_sizes() == [20, 40, 60, 80] and ten.list_new_sizes() == [2, 4, 6, 10, 16]
    assert [ten.count_stacks(slots) for slots in (80, 20, 16, 10, 2)] == [8, 2, 2, 2, 2]
    uneven = StackLayout(97, 10, 2)
    assert uneven.list_known_sizes() == [20, 40, 60, 80] and uneven.whole == 10
    slow = make_auto(ten, 3.0, 0.5)  # a stack takes 0.5 ms, all five rounds 2.5
    assert slow.cost == pytest.approx(1200)
    assert [slow.choose_size(1000, *now) for now in ((100, 81), (100, 80), (80, 35))] == [100, 80, 40]
    assert slow.choose_size(10_000, 40, 10) == 20, "smaller ones cost 1560 steps, and save 500 more"
    assert make_auto(ten, 30.0, 0.5).retire_at[-1] < slow.retire_at[-1], "what costs more must pay for longer"


def test_no_replica_that_runs_loses_its_slot(tmp_path):
    card, problem = make_problem(tmp_path, replicas=4)
    with pytest.raises(ValueError, match="4 replicas run"):
        make_ensemble(card, problem).shrink(3)


def test_faulty_steps_are_refused(tmp_path):
    for given, text in (("[5, 60]", "retire_at.1: got 60; must be below train.steps = 60"),
                        ("[9, 5]", "retire_at.1: got 5; must be above 9"), ("[0]", "retire_at.0: got 0")):  # fmt: skip
        with pytest.raises(CardError, match=text.replace(".", r"\.")):
            make_problem(tmp_path, [f"engine.retire_at={given}"])
