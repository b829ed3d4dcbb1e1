"""The page of a translation: whole without most figures, text of users as text, curves that add up."""

import subprocess
import sys

import numpy as np
import pytest

from tests.workloads.pdf.report.test_html import Page
from tfperf.workloads.translate import results as translation
from tfperf.workloads.translate.plots import average_stretches, draw_losses
from tfperf.workloads.translate.report import render_html
from tfperf.workloads.translate.results import LossHistory, TranslationResult


def made_up(steps=950, **summary):
    loss = 5 / np.sqrt(np.arange(1, steps + 1))
    where = np.arange(100, steps + 1, 100)
    history = LossHistory(loss, where, loss[where - 1] + 0.1)
    weights = {"source_embedding/embeddings": np.ones((3, 2), np.float32)}
    return TranslationResult("A <b>title</b>", 900, weights, history, summary)


@pytest.mark.parametrize("steps", [1, 199, 200, 950, 12_345])
def test_stretches_keep_the_mean_and_their_places(steps):
    losses = np.random.default_rng(1).random(steps)
    middle, mean = average_stretches(losses)
    assert len(mean) <= 200 and np.all(np.diff(middle) > 0)
    length = -(-steps // 200)
    assert mean[0] == pytest.approx(losses[:length].mean()) and middle[0] == (length + 1) / 2
    last = losses[length * (len(mean) - 1) :]
    assert mean[-1] == pytest.approx(last.mean()) and middle[-1] == steps - (len(last) - 1) / 2


def test_the_lowest_validation_loss_is_marked_with_its_step():
    (axis,) = draw_losses(made_up().history).axes
    legend = axis.get_legend()
    assert legend is not None
    assert "lowest, 0.267 after step 900" in [text.get_text() for text in legend.get_texts()]


def test_the_page_stands_without_figures(tmp_path):
    text = render_html(tmp_path, made_up())
    assert "n/a" in text and "A synthetic corpus has no text" in text
    assert all(source.startswith("data:") for source in Page(text).sources)


def test_text_of_users_is_text(tmp_path):
    samples = [{"source": "<i>x", "reference": "y & z", "translation": "<script>"}]
    text = render_html(tmp_path, made_up(samples=samples, scores={"beam": {"bleu": 12.346, "chrf": None}}))
    assert "<td>&lt;i&gt;x</td><td>y &amp; z</td><td>&lt;script&gt;</td>" in text and "A &lt;b&gt;title" in text
    assert "<td>beam search</td><td>12.35</td><td>n/a</td>" in text


def test_results_come_back_as_they_were_written(tmp_path):
    result = made_up(scores={}, title="ü")
    translation.write(tmp_path / "results.h5", result)
    again = translation.read(tmp_path / "results.h5")
    assert (again.title, again.best_step, again.summary) == (result.title, 900, {"scores": {}, "title": "ü"})
    for one, other in ((again.weights, result.weights), (vars(again.history), vars(result.history))):
        assert one.keys() == other.keys()
        for name, value in one.items():
            assert value.dtype == other[name].dtype
            np.testing.assert_array_equal(value, other[name])


def test_a_page_needs_neither_tensorflow_nor_pyplot(tmp_path):
    code = (
        "import sys, pathlib\nfrom tests.workloads.translate.test_report import made_up\n"
        "from tfperf.workloads.translate.report import write_events, write_html\nresult = made_up()\n"
        "write_html(pathlib.Path(sys.argv[1]), result)\nwrite_events(pathlib.Path(sys.argv[1]), result.history)\n"
        "assert not {'tensorflow', 'matplotlib.pyplot'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path], check=True)
