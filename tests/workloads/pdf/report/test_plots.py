from dataclasses import replace

import numpy as np
import pytest
from matplotlib.collections import LineCollection

from tests.make_result import make_result
from tfperf.report.style import apply_style, escape_math, to_png
from tfperf.workloads.pdf.report.pictures import group_by_experiment
from tfperf.workloads.pdf.report.plots_chi2 import draw_chi2, draw_losses
from tfperf.workloads.pdf.report.plots_data import draw_data
from tfperf.workloads.pdf.report.plots_pdf import draw_pdfs
from tfperf.workloads.pdf.results.record import EVOLUTION


@pytest.fixture(autouse=True)
def _style():
    with apply_style():
        yield


def line(axis, label):
    (found,) = [artist for artist in axis.lines if artist.get_label() == label]
    return np.asarray(found.get_xdata()), np.asarray(found.get_ydata())


def test_pdf_means_leave_out_replicas_that_did_not_converge():
    result = make_result(replicas=8, failed=2)  # the second of them is finite and would move the mean
    figure = draw_pdfs(result, result.pdf, EVOLUTION, "log")
    kept = result.pdf[result.converged]
    assert len(kept) == 6
    for f, axis in enumerate(figure.axes):
        x, mean = line(axis, "mean")
        np.testing.assert_array_equal(x, result.x)
        np.testing.assert_allclose(mean, kept[:, f].mean(axis=0), rtol=1e-14)
        _, edge = line(axis, r"mean $\pm$ 1 $\sigma$")
        np.testing.assert_allclose(mean - edge, kept[:, f].std(axis=0, ddof=1), atol=1e-14)
        lines = [c for c in axis.collections if isinstance(c, LineCollection)]
        assert [len(c.get_segments()) for c in lines] == [6, 1]  # the quarantined one is nan
    assert "6 converged replicas" in figure.texts[0].get_text()


@pytest.mark.parametrize(("scale", "first"), [("log", 1e-5), ("linear", 0.05)])
def test_pdf_axes_show_three_sigma_and_ignore_a_wild_replica(scale, first):
    result = make_result(replicas=40, failed=0)
    result.pdf[0] *= 5.0
    for f, axis in enumerate(draw_pdfs(result, result.pdf, EVOLUTION, scale).axes):
        shown = result.x >= first
        mean, std = result.pdf[:, f].mean(axis=0)[shown], result.pdf[:, f].std(axis=0, ddof=1)[shown]
        low, high = axis.get_ylim()
        assert low < min(0, np.min(mean - 3 * std)) and np.max(mean + 3 * std) < high < 2 * np.max(mean + 3 * std)
        assert axis.get_xscale() == scale


def test_chi2_histograms_count_each_converged_replica_once():
    result = make_result(replicas=30, failed=3)
    own, central = draw_chi2(result).axes
    for axis, labels in ((own, ("training", "validation")), (central, ("experimental",))):
        legend = axis.get_legend()
        assert legend is not None
        texts = [t.get_text() for t in legend.get_texts()]
        assert all(any(t.startswith(f"{name}, median") for t in texts) for name in labels)
        assert len(axis.patches) == len(labels)
        for patch in axis.patches:
            x, y = patch.get_xy().T  # type: ignore[attr-defined]
            heights = [y[i] for i in range(len(y) - 1) if x[i + 1] > x[i]]
            assert sum(heights) == 27
    x, _ = line(central, f"mean PDF {result.summary['chi2_per_point']:.4g}")
    assert x[0] == result.summary["chi2_per_point"]
    assert central.get_xlim()[0] < x[0] < central.get_xlim()[1]


@pytest.mark.parametrize("chi2", [0.2, 3.0])
def test_the_mean_pdf_is_marked_inside_the_frame(chi2):
    _, central = draw_chi2(replace(make_result(), summary={"chi2_per_point": chi2})).axes
    assert central.get_xlim()[0] < chi2 < central.get_xlim()[1]


def test_a_chi2_far_off_is_counted_and_does_not_flatten_the_rest():
    result = make_result(replicas=30, failed=0)
    result.replicas.chi2_validation[4] = 1e4
    own, _ = draw_chi2(result).axes
    assert own.get_xlim()[1] < 10
    legend = own.get_legend()
    assert legend is not None and any("1 beyond" in t.get_text() for t in legend.get_texts())


def test_losses_are_medians_of_the_converged_replicas_each_with_its_last_loss_where_it_has_stopped():
    result = make_result(replicas=9, failed=2, rows=30)
    figure = draw_losses(result)
    for axis, losses in zip(figure.axes, (result.history.training, result.history.validation), strict=False):
        step, median = line(axis, "median")
        np.testing.assert_array_equal(step, result.history.step)
        held = losses[:, result.converged].copy()
        for row in range(1, len(held)):
            held[row] = np.where(np.isnan(held[row]), held[row - 1], held[row])
        assert np.isnan(losses[-1, result.converged]).any(), "nobody has stopped: the comparison shows nothing"
        np.testing.assert_allclose(median, np.median(held, axis=1))
    running = figure.axes[4].lines[0].get_ydata()
    np.testing.assert_array_equal(running, (~np.isnan(result.history.training)).sum(axis=1))


def test_data_points_lie_in_order_of_q2_and_x_as_ratio_to_the_mean_pdf():
    result = make_result(sets=1, points=40)
    dataset = result.datasets[0]
    (axis,) = draw_data(result.datasets, result.converged).axes
    want = sorted(zip(dataset.kin[:, 1], dataset.kin[:, 0], dataset.cv / dataset.mean, strict=True))
    bars = np.array(next(c for c in axis.collections if isinstance(c, LineCollection)).get_segments())  # (N, 2, 2)
    np.testing.assert_allclose(bars[:, :, 1].mean(axis=1), [w[2] for w in want])
    order = np.lexsort((dataset.kin[:, 0], dataset.kin[:, 1]))
    np.testing.assert_allclose(np.ptp(bars[:, :, 1], axis=1), 2 * (dataset.sigma / dataset.mean)[order])
    points = np.concatenate([a.get_xdata() for a in axis.lines[1:]])  # inside, above, below
    assert sorted(points) == list(range(40))
    ticks = [float(t.get_text()) for t in axis.get_xticklabels()]
    assert ticks == pytest.approx(sorted({w[0] for w in want}), rel=1e-2)


def test_points_outside_the_frame_are_marked_at_its_edge():
    result = make_result(sets=1, points=40)
    result.datasets[0].cv[7] *= 30
    (axis,) = draw_data(result.datasets, result.converged).axes
    _, up, down = axis.lines[1:]
    assert np.size(up.get_xdata()) == 1 and np.size(down.get_xdata()) == 0
    assert axis.get_ylim()[0] < np.asarray(up.get_ydata())[0] < axis.get_ylim()[1]


def test_sets_are_grouped_by_experiment():
    result = make_result(sets=5)
    groups = dict(group_by_experiment(result.datasets))
    assert list(groups) == ["BCDMS", "NMC", "HERA"]
    assert [len(g) for g in groups.values()] == [2, 2, 1]


def test_sets_without_q2_or_with_a_vanishing_prediction_are_drawn():
    dataset = make_result(sets=1).datasets[0]
    bare = replace(dataset, kin_columns=("y", "pt"), label="cost 5 $ {", name="a_$b", mean=dataset.mean * 0.0)
    png = to_png(draw_data([bare], np.ones(6, bool)))
    assert png.startswith(b"\x89PNG")


@pytest.mark.parametrize("text", [r"NC $e^+p$", "5 $", r"$\nosuch$", r"\$", "x_1^2", "$$", "日本"])
def test_any_label_can_be_drawn(text):
    dataset = replace(make_result(sets=1).datasets[0], label=text)
    assert to_png(draw_data([dataset], np.ones(6, bool))).startswith(b"\x89PNG")
    assert escape_math(r"NC $e^+p$") == r"NC $e^+p$"


def test_equal_results_give_equal_pictures():
    assert to_png(draw_chi2(make_result())) == to_png(draw_chi2(make_result()))
