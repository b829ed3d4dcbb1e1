"""Choices are measured once per machine and card; what the card fixes is not tried."""

import json
from dataclasses import replace

import pytest

import tfperf
from tests.make_pack import make_card
from tests.runs.conftest import same_bits
from tests.train.problems import make_ensemble, make_problem
from tfperf.data.cache import VARIABLE
from tfperf.train import choice_cache
from tfperf.train import choosing as module
from tfperf.train.choices import CandidateTiming, Choices
from tfperf.train.choosing import choose
from tfperf.train.cores import Cores
from tfperf.train.ensemble import Ensemble
from tfperf.workloads.pdf import card_engine, cores, forms
from tfperf.workloads.pdf import training as part
from tfperf.workloads.pdf.cards import load_card
from tfperf.workloads.pdf.forms import LAYOUTS, NAMES, Candidates
from tfperf.workloads.pdf.operators.products import Product
from tfperf.workloads.pdf.stack import PDFStackFactory, make_settings

pytestmark = pytest.mark.usefixtures("blank_pictures")

OPEN = ["engine.form=auto", "train.steps_per_call=auto"]


@pytest.fixture
def counted(tmp_path, monkeypatch):
    """A cache of its own, no pages, and the candidates that were tried in it."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr("tfperf.workloads.pdf.report.html.render_html", lambda *_: "")  # seconds each
    monkeypatch.setattr(module, "TIMING_SECONDS", 0.01)
    monkeypatch.setattr(module, "FORM_GAIN", 1e9)  # as if the training took hours
    monkeypatch.setattr(module, "LAYOUT_GAIN", 1e9)
    monkeypatch.setattr(module, "BUDGET_SECONDS", 1e9)  # however slow the machine is
    monkeypatch.setattr(forms, "list_layouts", lambda *_: ("grouped", "joined"))  # tables this small are in one product
    tried, real = [], module.measure_candidate

    def measure(loop, xla, form, *rest):
        tried.append((form.name, form.products, xla))
        return real(loop, xla, form, *rest)

    monkeypatch.setattr(module, "measure_candidate", measure)
    return tried


def engine(run):
    return json.loads((run / "report.json").read_text())["engine"]


@pytest.mark.slow
def test_second_run_takes_the_choices_of_the_first(counted, tmp_path):
    card, runs = make_card(tmp_path, replicas=2, steps=10), [tmp_path / n for n in "ab"]
    tfperf.fit(card, runs[0], overrides=OPEN)
    first = engine(runs[0])
    assert counted == [("shared", "grouped", False), ("folded", "grouped", False), (first["form"], "joined", False)]
    tfperf.fit(card, runs[1], overrides=OPEN)
    assert len(counted) == 3, "nothing is measured again"
    second = engine(runs[1])
    assert (first.pop("cached"), second.pop("cached")) == (False, True)
    for key in ("form", "products", "xla", "losses_xla", "steps_per_call", "threads", "cpu_stacks", "tried"):
        assert first[key] == second[key]
    same_bits(*runs)


MADE = Choices(
    form="shared", products="grouped", xla=True, losses_xla=False, steps_per_call=10, threads=2, cpu_stacks=1,
    tried=(CandidateTiming("shared", "grouped", True, 1.5, 0.1), CandidateTiming("shared", "grouped", False, 0.5, 0.2)),
)  # fmt: skip


def test_choices_are_read_back_unless_damaged_or_renewed(tmp_path):
    card, path = load_card(make_card(tmp_path)), tmp_path / "choices" / "key.json"
    assert choice_cache.read(make_settings(card), path, NAMES, LAYOUTS) is None
    assert choice_cache.write(path, MADE) == () and [p.name for p in path.parent.iterdir()] == ["key.json"]
    assert choice_cache.read(make_settings(card), path, NAMES, LAYOUTS) == replace(MADE, cached=True)
    assert (
        choice_cache.read(make_settings(load_card(make_card(tmp_path), ["engine.cache=renew"])), path, NAMES, LAYOUTS)
        is None
    )
    whole = path.read_text()
    for damage in (
        "",
        "{}",
        "[1]",
        '{"choices": {"form": 3}}',
        whole[: len(whole) // 2],
        "\0" * len(whole),
        "[" * 10**5,
    ):
        path.write_text(damage)
        assert choice_cache.read(make_settings(card), path, NAMES, LAYOUTS) is None
    for old, new in (("10", "11"), ("shared", "folded"), ("1.5", "1.25")):
        path.write_text(whole.replace(old, new))
        assert path.read_text() != whole and choice_cache.read(make_settings(card), path, NAMES, LAYOUTS) is None
    path.unlink()
    path.symlink_to("/dev/zero")
    assert choice_cache.read(make_settings(card), path, NAMES, LAYOUTS) is None


def test_choices_are_not_taken_from_other_users_or_for_longer_calls_than_the_card_allows(tmp_path, monkeypatch):
    card, path = load_card(make_card(tmp_path)), tmp_path / "choices" / "key.json"
    choice_cache.write(path, replace(MADE, steps_per_call=11))
    assert choice_cache.read(make_settings(card), path, NAMES, LAYOUTS) is None
    choice_cache.write(path, MADE)
    assert choice_cache.read(make_settings(card), path, NAMES, LAYOUTS) is not None
    monkeypatch.setattr("os.geteuid", lambda: -2)
    assert choice_cache.read(make_settings(card), path, NAMES, LAYOUTS) is None


WRONG: dict[str, list] = {
    "form": ["nonsense", None, 1], "products": ["x", []], "xla": [1, "true", None],
    "steps_per_call": [0, -1, 10**9, "x", 1.5, True, None, 10**400], "threads": [0, -3, 10**6, "2", 2.0],
    "losses_xla": [1, "true", None], "cpu_stacks": [0, -3, 10**6, "2", 2.0], "tried": [None, {}, [{}], [[1]], "shared"],
    "cores_tried": [[[0, 1, 1.0]], [[1, 0, 1.0]], [[1]], [[1, 1, "x"]], [[1, 1, float("nan")]]],
    "cached": [0, "no"], "more": [1],
}  # fmt: skip


@pytest.mark.parametrize("key", WRONG)
def test_choices_of_wrong_type_or_range_are_refused(key):
    whole = json.loads(json.dumps(MADE.to_dict()))
    assert Choices.from_dict(whole, NAMES, LAYOUTS) == MADE
    for value in WRONG[key]:
        with pytest.raises(ValueError, match=r"validation error|nested|no choices|no form"):
            Choices.from_dict({**whole, key: value}, NAMES, LAYOUTS)
    without = {k: v for k, v in whole.items() if k != key}
    if key in ("form", "tried", "threads", "cpu_stacks", "losses_xla"):
        with pytest.raises(ValueError, match="validation error"):
            Choices.from_dict(without, NAMES, LAYOUTS)


def test_choices_that_are_no_choices_are_refused():
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    for values in (None, [], "x", {"form": {1, 2}}, {"tried": deep}):
        with pytest.raises(ValueError, match=r"validation error|no choices"):
            Choices.from_dict(values, NAMES, LAYOUTS)  # type: ignore[arg-type]


def test_choices_that_cannot_be_kept_are_a_warning(counted, tmp_path, monkeypatch, capfd):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "file"))
    tfperf.fit(make_card(tmp_path, replicas=1, steps=10), tmp_path / "run", quiet=False)
    assert len(counted) == 2 and "warning: choices are not kept for the next run" in capfd.readouterr().err


def test_key_is_of_what_matters(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))

    one = Cores(2, 1)

    def key(*overrides, cores=one):
        return PDFStackFactory(*make_problem(tmp_path, overrides)).find_choices_path(cores)

    base = key()
    same = ["title=other", "seed=8", "engine.check_every=5", "engine.chunk=3"]
    assert {key(override) for override in same} == {base}
    different = ["replicas=4", "data.exclude=[CCC_ADD]", "data.cuts={x_min: 0.1}", "model.initializer=he_normal",
                 "train.optimizer={name: RMSprop}", "engine.precision=float64", "engine.form=folded", "data.t0=none",
                 "train.steps_per_call=5"]  # fmt: skip
    keys = [
        base,
        key(cores=Cores(1, 1)),
        key(cores=Cores(2, 2)),
        key(cores=None),
        *(key(override) for override in different),
    ]
    assert len(set(keys)) == len(keys)
    monkeypatch.setattr(choice_cache, "read_cpu_model", lambda: "another")
    assert key() not in keys
    assert key("engine.cache=false") is None


def test_candidates_beyond_the_time_are_not_tried(counted, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "BUDGET_SECONDS", 0.0)
    card, problem = make_problem(tmp_path, OPEN, replicas=1)
    every = Candidates(card, problem)
    found = choose(make_ensemble(card, problem, every.first), every, Cores(2))
    assert counted == [("shared", "grouped", False)] and found.form == "shared"


def test_candidates_that_cannot_pay_are_not_tried(counted, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "FORM_GAIN", 0.5)
    monkeypatch.setattr(module, "LAYOUT_GAIN", 0.2)
    card, problem = make_problem(tmp_path, [*OPEN, "engine.xla=auto"], replicas=1, steps=10)
    every = Candidates(card, problem)
    found = choose(make_ensemble(card, problem, every.first), every, Cores(2))
    assert counted == [("shared", "grouped", False)], "ten steps take less than any other trial, or a compilation"
    assert (found.xla, found.losses_xla, found.form) == (False, False, "shared")


def test_forms_far_behind_without_xla_are_not_compiled(counted, tmp_path, monkeypatch):
    ms = {("shared", False): 9.0, ("folded", False): 3.0, ("folded", True): 1.0}

    def measure(loop, xla, form, *rest):
        counted.append(tried := (form.name, form.products, xla))
        return CandidateTiming(*tried, 1.0, ms[form.name, xla] * (1 + (form.products == "joined")))

    monkeypatch.setattr(module, "measure_candidate", measure)
    card, problem = make_problem(tmp_path, [*OPEN, "engine.xla=auto"], replicas=1, steps=10_000)
    every = Candidates(card, problem)
    ensemble = make_ensemble(card, problem, every.first)
    found = choose(ensemble, every, Cores(2))
    assert counted == [("shared", "grouped", False), ("folded", "grouped", False), ("folded", "grouped", True),
                       ("folded", "joined", True)]  # fmt: skip
    assert (found.form, found.products, found.xla) == ("folded", "grouped", True)
    assert (ensemble.form.name, ensemble.form.products) == ("folded", "grouped")


def test_form_whose_calls_are_dear_is_not_chosen(tmp_path, monkeypatch):
    ms = {"shared": (9.0, 0.0)}  # of a step, and beside it of a call of 200

    def measure(loop, xla, form, *rest):
        return CandidateTiming(form.name, form.products, xla, 1.0, *ms[form.name])

    monkeypatch.setattr(module, "measure_candidate", measure)
    card, problem = make_problem(tmp_path, [*OPEN, "engine.products=grouped"], replicas=1, steps=10_000)
    every = Candidates(card, problem)
    for calls, form in ((1100.0, "folded"), (1300.0, "shared")):
        ms["folded"] = 3.0, calls
        assert choose(make_ensemble(card, problem, every.first), every, Cores(2)).form == form


def test_loop_of_the_winner_is_kept(counted, tmp_path, monkeypatch):
    """It is not built, traced and compiled again."""
    built, real = [], Ensemble._build

    def build(self, rows):
        built.append((self.form.name, self.form.products))
        return real(self, rows)

    monkeypatch.setattr(Ensemble, "_build", build)
    card, problem = make_problem(tmp_path, OPEN, replicas=1, steps=10)
    every = Candidates(card, problem)
    ensemble = make_ensemble(card, problem, every.first)
    choose(ensemble, every, Cores(2))
    ensemble.run(1, False)
    assert len(built) == len(set(built)) == 3


def test_fixed_card_is_not_tried_but_its_calls_stay_short(counted, tmp_path, monkeypatch):
    monkeypatch.setattr(forms, "list_layouts", lambda *_: ("grouped",))
    card, problem = make_problem(
        tmp_path, ["engine.form=shared", "engine.products=grouped", "train.steps_per_call=60"], replicas=1
    )
    ensemble = make_ensemble(card, problem)
    found = choose(ensemble, Candidates(card, problem), Cores(2))
    assert counted == [("shared", "grouped", False)] and found.steps_per_call == 60 and ensemble.step == 0
    slow = CandidateTiming("shared", "grouped", False, 1.0, 300.0)
    monkeypatch.setattr(module, "measure_candidate", lambda *_: slow)
    found = choose(ensemble, Candidates(card, problem), Cores(2))
    assert found.steps_per_call == 5, "6 steps take 1.8 s"


def test_joined_products_are_tried_unless_they_multiply_far_more(tmp_path, monkeypatch):
    card, problem = make_problem(tmp_path, ["engine.products=auto"], replicas=1)
    assert len(problem.observables.products) == 1 and forms.list_layouts(card, problem) == ("grouped",)
    (one,) = problem.observables.products
    halves = [
        Product(one.flavours, 5 * i, one.matrix.reshape(len(one.matrix), 8, -1)[rows, :, 5 * i :].reshape(n, -1), rows)
        for i, (rows, n) in enumerate([(slice(0, 2), 2), (slice(2, len(one.matrix)), len(one.matrix) - 2)])
    ]
    two = replace(problem, observables=replace(problem.observables, products=tuple(halves)))
    assert forms.list_layouts(card, two) == ("grouped", "joined")
    monkeypatch.setattr(forms, "MOST_ENTRIES", 1.01)
    assert forms.list_layouts(card, two) == ("grouped",)
    for fixed in ("grouped", "joined", "padded"):
        assert forms.list_layouts(make_problem(tmp_path, [f"engine.products={fixed}"], replicas=1)[0], two) == (fixed,)


@pytest.mark.slow
def test_child_that_fails_leaves_what_is_taken_unmeasured(tmp_path, counted, monkeypatch):
    monkeypatch.setattr(cores, "BUDGET_SECONDS", 60.0)
    with monkeypatch.context() as patch:
        patch.setattr(card_engine, "count_cores", lambda: 1)  # one child
        assert cores.measure_cores(tmp_path / "missing.yaml", load_card(make_card(tmp_path)).engine, 1) is None
    asked = []
    monkeypatch.setattr(part, "measure_cores", lambda *a: asked.append(a))
    card = make_card(tmp_path, replicas=1, steps=10)
    tfperf.fit(card, tmp_path / "run", overrides=["engine.threads=measure", "engine.form=shared"])
    assert len(asked) == 1 and engine(tmp_path / "run")["threads"] >= 1


def test_child_answers_with_choices(tmp_path, counted, monkeypatch):
    monkeypatch.setattr(cores, "BUDGET_SECONDS", 300.0)
    monkeypatch.setattr(card_engine, "count_cores", lambda: 1)
    path = make_card(tmp_path, replicas=1, steps=20)
    found = cores.measure_cores(path, load_card(path).engine, 2, ["engine.form=shared"])
    assert found is not None and found.cores == Cores(1, 1) and found.cores_tried[0][:2] == (1, 1)
