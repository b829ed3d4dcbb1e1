"""Trials themselves: real steps of both programs on the small pack."""

import io
import json
import sys

import pytest

from tests.make_pack import make_card
from tests.train.problems import make_ensemble, make_loop, make_problem
from tfperf.measure import parent_watch
from tfperf.measure.timing import TraceCounter
from tfperf.runcard.dump import to_json_tree
from tfperf.runcard.keys import get, put
from tfperf.study import variant as program
from tfperf.study.agreement import compare_losses
from tfperf.train.cores import Cores
from tfperf.workloads.pdf import runners
from tfperf.workloads.pdf import variant_trial as trial
from tfperf.workloads.pdf.cards import load_card
from tfperf.workloads.pdf.forms import Candidates
from tfperf.workloads.pdf.kind import KIND
from tfperf.workloads.pdf.stack import PDFStack
from tfperf.workloads.pdf.switches import SWITCHES, make_switches
from tfperf.workloads.pdf.variant_trial import measure_variant
from tfperf.workloads.switches import Request, Variant

to_tree, to_card = to_json_tree, KIND.make_card
FIXED = ["train.steps_per_call=5", "engine.form=folded", "engine.tolerance=1e-3", "engine.xla=true"]


def plan(tree):
    return make_switches(to_card(tree)).make_plan(tree)


def carry_out(request):
    return measure_variant(to_card(request.card), request)


def make_tree(folder, *overrides):
    return to_tree(load_card(make_card(folder, replicas=3), [*FIXED, *overrides]))


def off(tree, *names):
    return plan(tree).make_tree(tree, Variant(names))


def checked(tree, naive=False):
    return carry_out(Request(tree, naive, checked=(1, 3)))


@pytest.fixture(scope="module")
def naive(tmp_path_factory):
    """The naive variant's record, with the card's quadrature."""
    return checked(make_tree(tmp_path_factory.mktemp("naive")), naive=True)


@pytest.mark.slow
def test_a_naive_trial_is_timed(tmp_path):
    record = carry_out(Request(make_tree(tmp_path), naive=True, seconds=0.1))
    ms = record["ms_per_step"]
    assert 0 < ms["q1"] <= ms["median"] <= ms["q3"] and record["steps"] >= record["samples"] >= 5
    assert record["peak_rss_bytes"] > 1e8 and record["seconds"]["first_steps"] > 0 and "losses" not in record
    json.dumps(record)


@pytest.mark.parametrize("names", [("tolerance",), ("form", "products")])
def test_forms_that_are_exact_agree_with_the_naive_one(tmp_path, naive, names):
    record = checked(off(make_tree(tmp_path), *names, "xla"))
    found = compare_losses(record, naive)
    assert found["agrees"] and found["worst"] < 1e-7
    assert record["points"] == naive["points"] and len(record["losses"]["training"]) == 2


@pytest.mark.slow
def test_another_quadrature_has_a_reference_of_its_own(tmp_path, naive):
    tree = off(make_tree(tmp_path), "quadrature", "form", "xla")
    record = checked(tree)
    assert compare_losses(record, naive)["worst"] > 1e-6, "the integrals are others"
    assert compare_losses(record, checked(tree, naive=True))["worst"] < 1e-7


def test_the_reduced_form_agrees_within_its_tolerance_only(tmp_path, naive):
    record = checked(off(make_tree(tmp_path, "engine.tolerance=0.5"), "xla"))
    assert compare_losses(record, naive, 0.5)["agrees"]
    assert not compare_losses(record, naive)["agrees"], "nothing was reduced: the test shows nothing"


def test_a_slightly_different_step_does_not_agree(tmp_path, naive):
    tree = off(make_tree(tmp_path), "form", "xla")
    put(tree, "train.optimizer.learning_rate", 1.01 * get(tree, "train.optimizer.learning_rate"))
    assert not compare_losses(checked(tree), naive)["agrees"]


def test_padded_products_reach_every_form(tmp_path):
    card = to_card(off(make_tree(tmp_path, "engine.form=auto"), "products", "xla"))
    problem = trial.read_problem(card, (1,))
    forms = Candidates(card, problem)
    assert set(forms.names) == {"shared", "folded"} and forms.layouts == ("padded",)
    for name in forms.names:
        stack = make_ensemble(card, problem, forms.make(name, "padded")).largest_loop.stack
        assert isinstance(stack, PDFStack)
        (one,) = stack.replica_losses.loss_constants.points.observables.products
        assert one.start == 0 and len(one.flavours) == 8


def test_auto_is_decided_as_in_a_fit(tmp_path):
    tree = make_tree(tmp_path, "engine.form=auto", "engine.xla=false", "train.steps_per_call=auto")
    choices = carry_out(Request(tree, decide=True))["choices"]
    assert choices["engine.form"] in ("shared", "folded") and choices["engine.xla"] is False
    assert 1 <= choices["train.steps_per_call"] <= 60
    for key, value in choices.items():
        put(tree, key, value)
    checked(tree)  # nothing is left to decide


def test_samples_are_of_the_same_steps_and_calls_of_the_cards_length(tmp_path):
    card, problem = make_problem(tmp_path, [*FIXED, "engine.xla=false", "engine.form=shared"])
    runner = runners.EnsembleRunner(card, problem, Cores(2))
    runner.warm_up()
    assert runner.per_call == 5
    assert runner.measure_calls(3)[0] == 15 and runner.measure_calls(3)[0] == 15
    assert runner.measure_calls(100)[0] == card.train.steps
    want = make_loop(card, problem)
    want.run(card.train.steps, False)
    assert int(want.step) == runner.ensemble.step


class Ticks:
    """A runner whose step takes 2 ms, and that has 30."""

    def __init__(self, left):
        self.left, self.asked = left, []

    def measure_calls(self, calls):
        self.asked.append(calls)
        taken = min(calls, self.left)
        self.left -= taken
        return taken, 2e-3 * taken


def test_sampling_ends_with_the_steps(monkeypatch):
    runner = Ticks(30)
    samples, steps = runners.measure_samples(runner, 0.4)
    assert samples == pytest.approx([2.0] * 3) and steps == 29 and runner.asked[:2] == [1, 10]


def test_at_least_five_samples_are_taken():
    samples, _ = runners.measure_samples(Ticks(10**6), 1e-6)
    assert len(samples) == 5


def test_what_a_form_cannot_do_comes_back_as_a_refusal(tmp_path, monkeypatch, capsys):
    tree = make_tree(tmp_path, "train.optimizer={name: Adam, global_clipnorm: 1.0, clipnorm: null}")
    request = {"card": tree, "naive": True, "decide": False, "seconds": None, "checked": [1, 3]}
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(request)))
    parent_watch.answer_request(program.measure_variant)
    (line,) = capsys.readouterr().out.splitlines()
    assert "global_clipnorm: got 1" in json.loads(line)["refused"][0]


def test_every_switch_has_its_trial(tmp_path):
    tree = make_tree(tmp_path)
    assert [s.name for s in plan(tree).switches] == [s.name for s in SWITCHES]


@pytest.mark.slow
@pytest.mark.parametrize("naive", [True, False])
def test_nothing_is_traced_in_samples_once_a_form_is_warm(tmp_path, monkeypatch, naive):
    clean = []

    def watch(kind):
        measure_calls = kind.measure_calls

        def watched(self, calls):
            traces = TraceCounter()
            found = measure_calls(self, calls)
            clean.append(traces.is_unchanged())
            return found

        monkeypatch.setattr(kind, "measure_calls", watched)

    watch(runners.NaiveRunner if naive else runners.EnsembleRunner)
    carry_out(Request(make_tree(tmp_path), naive=naive, seconds=0.2))
    assert not clean[0], "the first one compiles"
    assert len(clean) > 5 and all(clean[2:])
