"""The table and the waterfall of an ablation."""

import io

import pytest
from rich.console import Console

from tfperf.report.ablation import add_speedups, compare_losses, format_digits, make_ablation_table
from tfperf.report.plots_ablation import draw_waterfall
from tfperf.report.study_progress import show_progress
from tfperf.report.style import apply_style, to_png


def entry(form, ms, agreed=True, error=None):
    time = None if ms is None else {"median": ms, "q1": 0.9 * ms, "q3": 1.1 * ms}
    compared = None if ms is None else {"worst": 1e-9 if agreed else 2e-3, "allowed": 1e-5, "agrees": agreed}
    return {"form": form, "ms_per_step": time, "peak_rss_bytes": 7e8, "agreement": compared, "error": error}


def make_report(form=entry("without b", 2.0), without=entry("without a", 4.0)):  # noqa: B008 - not changed
    first = entry("naive", 80.0) | {"name": "naive", "says": "plain", "without": None}
    second = form | {"name": "a", "says": "better", "without": without}
    third = entry("full", 0.5) | {"name": "b", "says": "best", "without": form}
    left_out = {"c": "off"}
    report = {"title": "five $", "setting": "3 replicas, float32", "left_out": left_out}
    return add_speedups(report | {"series": [first, second, third]})


def text(report):
    console = Console(width=80, force_terminal=False, record=True, file=io.StringIO())
    console.print(make_ablation_table(report))
    return console.export_text()


def test_the_table_has_every_figure_and_fits_the_screen():
    lines = text(make_report()).splitlines()
    rows = {line.split()[0]: line.split() for line in lines if line}
    assert rows["naive"][:3] == ["naive", "80.0", "72.0-88.0"]
    assert rows["a"][1:6] == ["2.00", "1.80-2.20", "40.0", "40.0", "8.00"] and rows["a"][-1] == "agree"
    assert rows["b"][1:6] == ["0.500", "0.450-0.550", "4.00", "160", "4.00"]
    assert "left out: c: off" in lines and max(map(len, lines)) <= 80
    assert "losses after one step differ at most by 1.0e-09, allowed are 1e-05" in " ".join(lines)


def test_a_form_that_differs_or_failed_is_told():
    report = make_report(without=entry("without a", 4.0, agreed=False))
    assert "DIFFER" in text(report) and "losses differ: without a: by 2.0e-03" in text(report)
    assert not report["agree"] and compare_losses(report["series"][1]) is False
    report = make_report(form=entry("without b", None, error="no memory"))
    assert "not measured: without b: no memory" in text(report) and "n/a" in text(report)
    assert not report["agree"] and compare_losses(report["series"][1]) is None


@pytest.mark.parametrize(
    ("value", "want"),
    [(0.0312, "0.0312"), (1.0, "1.00"), (12.34, "12.3"), (160, "160"), (4567.8, "4568"), (None, "n/a")],
)  # fmt: skip
def test_three_digits(value, want):
    assert format_digits(value) == want


def bars(axis):
    """First and last value of each bar by its row."""
    out = {}
    for patch in axis.patches:
        left, width = patch.get_x(), patch.get_width()
        out[round(patch.get_y() + patch.get_height() / 2)] = (left, left + width)
    return out


def test_bars_lead_from_each_form_to_the_next():
    with apply_style():
        figure = draw_waterfall(make_report())
        steps, without = figure.axes
        found = bars(steps)
        assert found[1] == pytest.approx((2.0, 80.0)) and found[2] == pytest.approx((0.5, 2.0))
        assert found[0][1] == pytest.approx(80.0) and found[3][1] == pytest.approx(0.5)  # both from the edge on
        assert bars(without) == {1: pytest.approx((1.0, 8.0)), 2: pytest.approx((1.0, 4.0))}
        assert [t.get_text() for t in steps.get_yticklabels()] == ["naive", "+ a", "+ b", "full engine"]
        assert {"80 ms", "× 40", "× 4", "0.5 ms"} <= {t.get_text().replace(".00", "").replace("0.500", "0.5").replace(
            "40.0", "40").replace("80.0", "80") for t in steps.texts}  # fmt: skip
        assert steps.get_xscale() == "log" and steps.get_xlim()[0] < 0.5 and steps.get_xlim()[1] > 80
        assert to_png(figure).startswith(b"\x89PNG")


def test_what_makes_it_slower_has_another_colour_and_what_is_unknown_no_bar():
    with apply_style():
        steps, without = draw_waterfall(make_report(form=entry("without b", 0.4))).axes
        colours = {round(p.get_y() + p.get_height() / 2): p.get_facecolor() for p in steps.patches}  # type: ignore[attr-defined]
        assert colours[1] != colours[2] and bars(steps)[2] == pytest.approx((0.4, 0.5))
        assert bars(without)[2] == pytest.approx((0.8, 1.0))
        figure = draw_waterfall(make_report(form=entry("without b", None), without=entry("without a", None)))
        assert set(bars(figure.axes[0])) == {0, 3} and not bars(figure.axes[1])
        assert [t.get_text() for t in figure.axes[0].texts].count("n/a") == 2
        assert to_png(figure).startswith(b"\x89PNG")


def test_progress_is_plain_when_piped(capsys):
    with show_progress() as show:
        show(1, 9, "full: [red]1.0 ms a step")
    assert capsys.readouterr().err == "[1/9] full: [red]1.0 ms a step\n"
    with show_progress(quiet=True) as show:
        show(1, 9, "nothing")
    assert capsys.readouterr().err == ""
