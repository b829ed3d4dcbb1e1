"""A translation from card to report: what a run holds, how it goes on after it was ended, what is refused."""

import json
import math
import re
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from tests.runcard.cards import ROOT
from tests.workloads.translate.translations import STEPS, carry_out, make_card
from tfperf.cli import main
from tfperf.errors import PackError
from tfperf.workloads.translate import results as translation
from tfperf.workloads.translate.cards import load_card
from tfperf.workloads.translate.corpus import Ragged, Split
from tfperf.workloads.translate.evaluation import compute_correct_pieces
from tfperf.workloads.translate.texts import read_sentences
from tfperf.workloads.translate.translator import Translator
from tfperf.workloads.translate.validation import Validation

ENDLESS = "train.optimizer={name: SGD}"
SYNTHETIC = """\
workload: translate
data: {fixed_length: 8, pairs: 120, vocabulary: 300, batch: 8}
model: {units: 8, layers: 1}
train: {steps: 6, steps_per_call: 3, validate_every: 3}
decode: {beam: 1, max_length: 4}
"""


def killed(*arguments):
    """Run a command that kills itself in a write of a checkpoint, tests.runs.kill_at."""
    command = [sys.executable, "-m", "tests.runs.kill_at", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A card and its runs: `whole`, left alone, and resumed when it was finished; `synthetic`."""
    folder = tmp_path_factory.mktemp("translate")
    card = make_card(folder)
    (folder / "synthetic.yaml").write_text(SYNTHETIC)
    done = carry_out(
        ["fit", card, "-o", folder / "whole"],
        ["fit", card, "-o", folder / "whole", "--resume"],
        ["fit", folder / "synthetic.yaml", "-o", folder / "synthetic"],
        ["--rate", 1e39, "fit", folder / "synthetic.yaml", "-o", folder / "endless", "--set", ENDLESS],
    )
    assert [code for code, _ in done] == [0, 0, 0, 2], done
    (folder / "outputs.json").write_text(json.dumps([output for _, output in done]))
    return folder


@pytest.fixture(scope="module")
def ended(folder):
    """A run that was killed, stopped and resumed, and what its commands said."""
    card, run = folder / "card.yaml", folder / "ended"
    killed("checkpoints", 9, "fit", card, "-o", run)  # in the third write
    done = carry_out(
        ["--stop-at", 13, "fit", card, "-o", run, "--resume"], ["fit", card, "-o", run, "--resume"]
    )  # fmt: skip
    assert [code for code, _ in done] == [143, 0], done
    return run, [output for _, output in done]


def report(run):
    return json.loads((run / "report.json").read_text())


def same_bits(a, b):
    """Assert that two runs found the same."""
    a, b = (translation.read(run / "results.h5") for run in (a, b))
    assert a.best_step == b.best_step
    for one, other in ((a.weights, b.weights), (vars(a.history), vars(b.history))):
        assert one.keys() == other.keys()
        for name, value in one.items():
            np.testing.assert_array_equal(value, other[name], err_msg=name)


@pytest.mark.slow
def test_a_run_that_was_ended_says_so_and_goes_on_to_the_same_bits(folder, ended):
    run, outputs = ended
    assert "going on from step 10" in outputs[0] and "going on from step 14" in outputs[1]
    assert "stopped by signal 15 at step 14; go on with --resume" in outputs[0]
    found, whole = report(run), report(folder / "whole")
    assert found["resumed_from_steps"] == [10, 14] and whole["resumed_from_steps"] == []
    same_bits(folder / "whole", run)
    for key in ("scores", "samples", "correct_pieces", "loss"):
        assert found[key] == whole[key]


def test_a_finished_run_stays_as_it_is(folder):
    said = json.loads((folder / "outputs.json").read_text())[1]
    assert "nothing left to do" in said and "beam search" in said and "report.html" in said


def test_stages_are_told_as_they_begin(folder):
    said = json.loads((folder / "outputs.json").read_text())[0]
    stages = ["reading data", "building the model", "compiling", "training", "translating", "writing results"]
    places = [said.index(f" {stage}") for stage in stages]
    assert places == sorted(places) and places[3] < said.index(f" step {STEPS}/{STEPS}, ") < places[4]


def test_weights_of_the_lowest_validation_loss_are_kept(folder):
    result = translation.read(folder / "whole" / "results.h5")
    history = result.history
    assert history.loss.shape == (STEPS,) and history.validation_step.tolist() == [10, 20, 30]
    # the lowest is not the last, so that what is kept is not what the training ended with
    assert result.best_step == 20 and np.argmin(history.validation_loss) == 1
    assert {"source_embedding/embeddings", "translator/projection/kernel"} < set(result.weights)
    card = load_card(folder / "card.yaml")
    sentences = read_sentences(card, folder / "whole", resumed=True)
    validation = Validation(card, Translator(card, sentences.rows), sentences.encoded.validation)
    assert validation.evaluate_loss([*result.weights.values()]) == pytest.approx(min(history.validation_loss), rel=1e-6)
    # pieces are at first about equally probable
    assert history.loss[0] == pytest.approx(math.log(320), rel=0.02)
    assert history.validation_loss[0] < history.loss[0] - 0.5


def test_the_report_has_figures_samples_and_placement(folder):
    found, page = report(folder / "whole"), (folder / "whole" / "report.html").read_text()
    assert set(found["scores"]) == {"greedy", "beam", "word_by_word"}
    assert all(0 <= score <= 100 for row in found["scores"].values() for score in row.values())
    assert len(found["samples"]) == 3 and found["samples"][0]["source"] in page
    assert found["placement"]["where"]["variable source_embedding/embeddings"] == "device:0"
    pairs = found["data"]["pairs"]
    assert min(pairs[key] for key in ("left_out", "validation_left_out", "test_left_out")) > 0
    assert "validation pairs left out, longer than" in page and 0 < found["data"]["padding_share"] < 1
    assert found["seconds"]["compile"] > 0 and found["words_per_second"] > 0 and found["ms_per_step"]["median"] > 0
    assert "A &lt;tiny&gt; translation" in page and "nrefs:1" in page.replace("<wbr>", "") and "word by word" in page
    assert "summed on one device a variable" in page and found["versions"]["sacrebleu"] in page
    stages = sum(v for k, v in found["seconds"].items() if k != "total")
    assert stages <= found["seconds"]["total"]


def test_the_run_directory_is_whole(folder):
    run = folder / "whole"
    state = json.loads((run / "run.json").read_text())
    assert set(state["inputs"]) == {"data.training.table"} and state["parts"][0]["done"]
    assert yaml.safe_load((run / "card.yaml").read_text())["train"]["steps"] == STEPS
    for name in ("environment.json", "vocabularies/source.json", "vocabularies/target.json", "checkpoints"):
        assert (run / name).exists()
    from tests.workloads.pdf.report.test_events import read

    steps, values = read(run / "events" / "validation")["loss/per_label"]
    history = translation.read(run / "results.h5").history
    assert steps == [10, 20, 30] and values == pytest.approx(history.validation_loss.tolist())
    assert len(read(run / "events" / "training")["loss/per_label"][0]) == STEPS


def test_a_synthetic_corpus_has_no_scores_but_correct_pieces(folder):
    found = report(folder / "synthetic")
    assert found["scores"] == {} and found["samples"] == [] and 0 <= found["correct_pieces"] <= 1
    assert found["data"]["padding_share"] == 0 and found["data"]["rows"] == 300
    outputs = json.loads((folder / "outputs.json").read_text())
    assert "n/a" in outputs[2]


def test_a_loss_that_is_not_finite_ends_the_training_with_a_message(folder):
    output = json.loads((folder / "outputs.json").read_text())[3]
    assert "error: the loss of step 2 is not finite" in output and "learning_rate" in output
    assert not (folder / "endless" / "report.json").exists()


def test_a_share_of_correct_pieces_is_of_those_that_could_be_translated():
    target = Ragged(np.array([5, 6, 7, 8, 9], np.int32), np.array([0, 3, 5]))
    found = [np.array([5, 9, 7], np.int32), np.array([8, 2, 0], np.int32)]
    assert compute_correct_pieces(found, Split(target, target), 3) == 3 / 5
    assert compute_correct_pieces(found, Split(target, target), 2) == 2 / 4


def call(*arguments):
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def test_a_changed_card_or_file_is_refused(folder, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(folder / "whole", run)
    card = make_card(tmp_path)
    code, output = call("fit", card, "-o", run, "--resume", "--set", "model.units=9")
    assert code == 2 and "model.units: got 9, the run has 8" in output
    with open(tmp_path / "pairs.tsv", "a") as file:
        file.write("x\tA new one\tEin neuer\n")
    code, output = call("fit", card, "-o", run, "--resume")
    assert code == 2 and "data.training.table: not the file that the run began with" in output
    code, output = call("fit", card, "-o", run)
    assert code == 2 and "holds a run" in output
    assert (run / "report.json").exists()


@pytest.mark.parametrize(("options", "words"), [
    (["--replicas", "3"], "--replicas: a card of workload translate has no replicas"),
    (["--retry-failed"], "--retry-failed: a card of workload translate has no replicas"),
    (["--resume"], "holds no run; leave --resume out"),
    (["--resume", "--force"], "exclude each other"),
    (["--set", "placement={engine: multiworker, merge: ring}"], "allowed: tower, mirrored, central"),
    (["--set", "data.training.columns=[english, french]"], "got 'french'; "),
    (["--set", "data.max_length=1"], "training pairs have more pieces"),
    (["--set", "data.training.table=none.tsv"], "no such file"),
])  # fmt: skip
def test_what_does_not_fit_is_refused_before_a_directory_is_touched(tmp_path, options, words):
    card = make_card(tmp_path)
    code, output = call("fit", card, "-o", tmp_path / "run", *options)
    assert code == 2 and words in output
    assert not (tmp_path / "run" / "run.json").exists()


def test_a_corpus_in_the_run_directory_is_refused(tmp_path):
    card = make_card(tmp_path)
    code, output = call("fit", card, "-o", tmp_path, "--force")
    assert code == 2 and "data.training.table" in output and "lies in the run directory" in output
    assert (tmp_path / "pairs.tsv").exists()


def test_a_resumed_run_takes_its_own_vocabularies_and_learns_lost_ones_again(folder):
    card = load_card(folder / "card.yaml")
    new, kept = read_sentences(card), read_sentences(card, folder / "whole", resumed=True)
    for one in (new, kept):
        assert one.vocabularies["target"].to_json() == (folder / "whole" / "vocabularies" / "target.json").read_text()
    (folder / "lost").mkdir()
    assert read_sentences(card, folder / "lost", resumed=True).rows == new.rows
    (folder / "lost" / "vocabularies").mkdir()
    for side in ("source", "target"):
        (folder / "lost" / "vocabularies" / f"{side}.json").write_text("{")
    with pytest.raises(PackError, match="vocabularies: damaged"):
        read_sentences(card, folder / "lost", resumed=True)


def test_check_tells_what_a_card_amounts_to(folder):
    command = [sys.executable, "-m", "tfperf", "check", folder / "card.yaml"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("ok\n"), done.stderr
    assert re.fullmatch(r"0:00:.. reading .*\n.*importing TensorFlow\n.*reading sentences\n", done.stderr)
    found = report(folder / "whole")["data"]
    assert f"pairs       {found['pairs']['training']} train" in done.stdout
    assert f"{found['steps_per_epoch']} an epoch, on 1 device\n" in done.stdout
    assert f"{100 * found['padding_share']:.1f} % padding" in done.stdout
    weights = translation.read(folder / "whole" / "results.h5").weights
    assert f"parameters  {sum(value.size for value in weights.values())}\n" in done.stdout
