"""A card fitted again and again until its own results leave it as it is."""

import json
import shutil

import numpy as np
import pytest
from click.testing import CliRunner

from tests.make_pack import make_card
from tfperf.cli import main
from tfperf.errors import Interrupted, TrainingError
from tfperf.results.contents import RESULTS
from tfperf.study import iterate
from tfperf.workloads.pdf import iteration
from tfperf.workloads.pdf.card import FITTED, Card
from tfperf.workloads.pdf.cards import load_card, to_closure
from tfperf.workloads.pdf.evaluate import evaluate_pdf
from tfperf.workloads.pdf.results import store
from tfperf.workloads.pdf.results.effective_exponents import EXPONENT_X
from tfperf.workloads.pdf.results.postfit import veto_replicas

pytestmark = pytest.mark.usefixtures("blank_pictures")
WEAK = ["--set", "positivity.threshold=1e6", "--set", "train.stopping.patience=60"]


def invoke(*arguments):
    return CliRunner().invoke(main, [str(one) for one in arguments])


@pytest.fixture(scope="module")
def iterated(tmp_path_factory, blank_pictures_of_module):
    """Two fits of a card whose ranges are far off."""
    folder = tmp_path_factory.mktemp("iterate")
    card = make_card(folder, steps=20, replicas=4)
    said = invoke("iterate", card, "-o", folder / "all", "--most", 2, "-q", *WEAK)
    return card, folder / "all", said


def compute_alpha(run):
    """Effective alpha (2 x, R, F) of the replicas that postfit would take."""
    result, card = store.read(run / RESULTS), load_card(run / "card.yaml")
    good = np.isin(result.replicas.id, veto_replicas(result).passed)
    pdf = evaluate_pdf(card, {name: w[good] for name, w in result.weights.items()}, EXPONENT_X)
    return np.array([-np.log(np.abs(pdf[:, :, k] / x)) / np.log(x) for k, x in enumerate(EXPONENT_X[:2])])


@pytest.mark.slow
def test_each_fit_has_the_ranges_and_t0_of_the_fit_before(iterated):
    _, folder, said = iterated
    assert said.exit_code in (0, 1), said.output
    first, second = (load_card(folder / f"fit_{number}" / "card.yaml") for number in (1, 2))
    assert first.data.t0 == "pack" and second.data.t0 == str(folder / "fit_1")
    alpha = compute_alpha(folder / "fit_1")
    for place, flavour in enumerate(FITTED):
        lows, highs = [], []
        for values in alpha[: 1 if flavour in ("sigma", "g") else 2, :, place]:
            low, high = np.percentile(values, [15.87, 84.13])
            lows.append(values.mean() - 2 * (values.mean() - low))
            highs.append(values.mean() + 2 * (high - values.mean()))
        limit = 0.99 if flavour in ("v", "v3", "v8") else 1.99
        want = [min(min(lows), limit), min(max(highs), limit)]
        assert second.model.exponents[flavour].alpha == pytest.approx(want, rel=1e-3), flavour


def test_what_moved_is_recorded_and_told(iterated):
    _, folder, said = iterated
    fits = json.loads((folder / "iterations.json").read_text())
    assert [len(moves) for moves in fits] == [17, 17]
    t0 = [moves[-1] for moves in fits]
    assert [one["key"] for one in t0] == ["data.t0", "data.t0"]
    assert t0[0]["distance"] is None
    results = [store.read(folder / f"fit_{number}" / RESULTS) for number in (1, 2)]
    first, second = (np.isin(r.replicas.id, veto_replicas(r).passed) for r in results)
    pulls = [
        (b.predictions[second].mean(axis=0) - a.predictions[first].mean(axis=0)) / b.sigma
        for a, b in zip(*(r.datasets for r in results), strict=True)
    ]
    assert t0[1]["distance"] == pytest.approx(np.sqrt(np.mean(np.concatenate(pulls) ** 2)))
    ends = [json.loads(fits[1][0][key]) for key in ("before", "after")]
    moved = np.max(np.abs(np.subtract(*ends))) / (ends[1][1] - ends[1][0])
    assert fits[1][0]["distance"] == pytest.approx(moved, rel=1e-3) and fits[1][0]["limit"] == 0.2
    still = all(one["distance"] <= one["limit"] for one in fits[1])
    assert said.exit_code == (0 if still else 1)
    assert "model.exponents.sigma.alpha" in said.output and "_iterated.yaml" in said.output.replace("\n", "")


def test_the_same_command_goes_on_and_makes_no_fit_twice(iterated, monkeypatch):
    card, folder, _ = iterated
    before = [(folder / f"fit_{number}" / RESULTS).stat().st_mtime_ns for number in (1, 2)]
    monkeypatch.setattr(iteration, "MOST_MOVE", 1e9)
    monkeypatch.setattr(iteration, "MOST_T0", 1e9)
    said = invoke("iterate", card, "-o", folder, "--most", 5, *WEAK)
    assert said.exit_code == 0, said.output
    assert "fit_1: 1 of 17 settings moved, data.t0 furthest" in said.output
    assert "fit_2: none of 17 settings moved" in said.output
    assert not (folder / "fit_3").exists()  # the second had the first one's t0 to compare with
    assert [(folder / f"fit_{number}" / RESULTS).stat().st_mtime_ns for number in (1, 2)] == before
    written = folder / f"{card.stem}_iterated.yaml"
    assert load_card(written) == load_card(folder / "fit_2" / "card.yaml")
    assert "ranges are of" in said.output and "chance moves those of fewer than 50" in said.output
    record = (folder / "iterations.json").read_bytes()
    fewer = invoke("iterate", card, "-o", folder, "--most", 1, *WEAK)  # forgets no fit that is there
    assert fewer.exit_code == 0 and load_card(written) == load_card(folder / "fit_2" / "card.yaml")
    assert (folder / "iterations.json").read_bytes() == record
    again = invoke("fit", written, "-o", folder / "fit_2", "--resume")
    assert again.exit_code == 0 and "nothing left to do" in again.output


def test_without_an_end_the_card_is_that_of_the_next_fit(iterated, monkeypatch):
    card, folder, _ = iterated
    monkeypatch.setattr(iteration, "MOST_MOVE", 1e-9)
    said = invoke("iterate", card, "-o", folder, "--most", 2, *WEAK)
    assert said.exit_code == 1 and "after 2 fits something still moves" in said.output
    written = load_card(folder / f"{card.stem}_iterated.yaml")
    assert written.data.t0 == str(folder / "fit_2")
    assert written.model.exponents != load_card(folder / "fit_2" / "card.yaml").model.exponents


def test_a_folder_that_was_moved_goes_on(iterated, tmp_path):
    card, folder, _ = iterated
    shutil.copytree(folder, tmp_path / "all")
    said = invoke("iterate", card, "-o", tmp_path / "all", "--most", 2, *WEAK)
    assert said.exit_code in (0, 1), said.output
    assert load_card(next((tmp_path / "all").glob("*_iterated.yaml"))).data.t0.startswith(str(tmp_path))


def test_a_card_that_changed_in_between_is_refused(iterated):
    card, folder, _ = iterated
    said = invoke("iterate", card, "-o", folder, *WEAK, "--set", "train.steps=30")
    assert said.exit_code == 2 and "train.steps" in said.output


def test_a_closure_test_keeps_the_t0_of_its_law(iterated):
    card, folder, _ = iterated
    refined = iteration.refine_card(to_closure(load_card(card)), folder / "fit_1", None)
    assert isinstance(refined.card, Card)
    assert len(refined.moves) == 16 and refined.card.data.t0 == "pack"


def test_a_folder_that_is_a_run_is_refused(iterated):
    card, folder, _ = iterated
    said = invoke("iterate", card, "-o", folder / "fit_1", *WEAK)
    assert said.exit_code == 2 and "is a run directory" in said.output


def test_a_workload_whose_fits_say_nothing_of_the_next_is_refused(tmp_path):
    card = tmp_path / "card.yaml"
    said = invoke("init", card, "--workload", "keras")
    said = invoke("iterate", card, "-o", tmp_path / "all")
    assert said.exit_code == 2 and not (tmp_path / "all").exists()


def test_a_stop_says_that_the_same_command_goes_on(tmp_path, monkeypatch):
    def stop(*_):
        raise Interrupted(2, 40, "go on with --resume")

    monkeypatch.setattr(iterate, "fit_card", stop)
    said = invoke("iterate", make_card(tmp_path), "-o", tmp_path / "all")
    assert said.exit_code == 130
    assert "stopped by signal 2 at step 40; the same command goes on" in said.output


def test_too_few_replicas_that_pass_are_refused(iterated, monkeypatch):
    card, folder, _ = iterated
    monkeypatch.setattr(iteration, "FEWEST", 5)
    with pytest.raises(TrainingError, match="of 4 replicas pass postfit; ranges of exponents need 5 at least"):
        iteration.refine_card(load_card(card), folder / "fit_1", None)
