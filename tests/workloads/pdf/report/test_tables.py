import io

import pytest
from rich.console import Console

from tests.make_result import make_result
from tfperf.workloads.pdf.report.tables import make_summary_table


def printed(summary, **options):
    stream = io.StringIO()
    Console(file=stream, **options).print(make_summary_table(summary))
    return stream.getvalue()


def test_piped_output_is_plain_and_complete():
    result = make_result(failed=2)
    text = printed(result.summary)
    assert text.isascii() and "\x1b" not in text
    for d in result.datasets:
        (row,) = [line for line in text.splitlines() if d.name in line]
        assert row.replace("|", " ").split() == [d.name, "12", f"{d.chi2:.3f}", f"{d.chi2_no_t0:.3f}"]
    assert "all, with correlations" in text and "mean of the sets' own" in text
    assert "4 of 6 converged (1 no_positivity, 1 quarantined, 4 stopped)" in text
    assert "write n/a, not attributed 2.40 s" in text.replace("\n", " ")


def test_titles_and_names_are_no_markup():
    summary = {"title": "[red]x[/red]", "chi2_per_dataset": {"a[bold]": {"ndata": 1, "chi2": 1.0, "chi2_no_t0": None}}}
    text = printed(summary)
    assert "[red]x[/red]" in text and "a[bold]" in text and "n/a" in text


@pytest.mark.parametrize("width", [50, 80, 200])
def test_names_are_never_cut(width):
    name = "HERA_NC_318GEV_EAVG_CHARM-SIGMARED"
    text = printed({"chi2_per_dataset": {name: {"ndata": 37, "chi2": 1.9, "chi2_no_t0": 1.8}}}, width=width)
    letters = "".join(line.split("|")[1].strip() for line in text.splitlines() if line.count("|") == 5)
    assert name in letters


def test_nothing_measured_is_said_so():
    assert "n/a of n/a converged" in printed({})
