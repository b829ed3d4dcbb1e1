import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from tests.make_result import make_result
from tfperf.errors import StorageError
from tfperf.report.page import render_table
from tfperf.report.sections import write_json
from tfperf.workloads.pdf.report.html import render_html, write_report
from tfperf.workloads.pdf.results import store

VOID = {"meta", "img", "br", "hr", "link", "input"}


class Page(HTMLParser):
    """Checks that tags nest; collects cells of table rows, links and requests to other files."""

    def __init__(self, text):
        super().__init__()
        self.open, self.rows, self.links, self.ids, self.sources, self.cell = [], [], [], [], [], None
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.ids += [values["id"]] if "id" in values else []
        self.links += [values["href"]] if "href" in values else []
        self.sources += [v for k, v in values.items() if k in ("src", "srcset", "data", "action", "poster")]
        assert not any(name.startswith("on") for name in values) and tag not in ("script", "iframe", "link")
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.cell = ""

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag in ("td", "th"):
            self.rows[-1].append(self.cell)
            self.cell = None

    def handle_data(self, data):
        if self.cell is not None:
            self.cell += data


@pytest.fixture(scope="module")
def result():
    return make_result(replicas=6, sets=2, failed=2)


@pytest.fixture(scope="module")
def folder(result, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    (folder / "card.yaml").write_text("title: <script>alert(1)</script>\n")
    (folder / "environment.json").write_text('{"cpu": "a & b"}')
    write_report(folder, result)
    assert sorted(p.name for p in folder.iterdir()) == ["card.yaml", "environment.json", "report.html", "report.json"]
    return folder


@pytest.fixture(scope="module")
def text(folder):
    return (folder / "report.html").read_text()


def test_the_page_is_whole_and_asks_for_nothing(text):
    page = Page(text)
    assert len(page.sources) == 8 and all(s.startswith("data:image/png;base64,") for s in page.sources)
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)
    assert len(page.ids) == len(set(page.ids)) == 8
    assert not re.search(r"https?://|url\(|@import", re.sub(r"base64,[^\"]*", "", text))


def test_text_of_users_is_escaped(text):
    assert "A made-up fit &lt;b&gt;&amp; more&lt;/b&gt;" in text and "<b>& more" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text and "<script" not in text
    assert "a &amp; b" in text


def test_cells_of_tables_are_escaped():
    got = render_table(("<i>",), [("<b>",)], [("&",)])
    assert Page(got).rows == [["<i>"], ["<b>"], ["&"]] and "<b>" not in got and "<i>" not in got


def test_chi2_table_has_each_set_and_the_sums(text, result):
    rows = {r[0]: r[1:] for r in Page(text).rows if r}
    for d in result.datasets:
        assert rows[d.name][:3] == [str(len(d.cv)), f"{d.chi2:.3f}", f"{d.chi2_no_t0:.3f}"]
    s = result.summary
    assert rows["all, with correlations"][:3] == [
        "24",
        f"{s['chi2_per_point']:.3f}",
        f"{s['chi2_no_t0_per_point']:.3f}",
    ]
    assert rows["mean of the sets' own"][:2] == ["24", f"{s['chi2_blocks_per_point']:.3f}"]


def test_times_engine_versions_and_failures_are_there(text, result):
    rows = Page(text).rows
    for want in (
        ["train", "61.0 s", "73.5 %"], ["write", "n/a", "n/a"], ["not attributed", "2.40 s", "2.9 %"],
        ["total", "83.0 s", "100.0 %"], ["per step", "5.50 ms (quartiles 5.25 to 6.12)"],
        ["peak memory (resident)", "1.50 GB"], ["resumed from step", "4000"], ["engine.precision", "float32"],
        ["engine.tried 2.ms", "7.25"], ["tensorflow", "2.21.0"], ["no_positivity", "1"], ["quarantined", "1"],
    ):  # fmt: skip
        assert want in rows
    stop = result.replicas.stop_step
    assert ["2", "quarantined", str(stop[1]), "0", "n/a", "0"] in rows
    assert any(r[:3] == ["4", "no_positivity", str(stop[3])] and r[-1] == "0.0003" for r in rows)
    assert "2 replicas did not converge and enter no mean or band: 2 (quarantined), 4 (no_positivity)." in text
    assert "68 % of the 4 converged replicas" in text


def test_the_same_result_gives_the_same_page(text, result, folder):
    assert render_html(folder, make_result(replicas=6, sets=2, failed=2)) == text


def changed(result=None, **parts):
    return replace(result or make_result(replicas=3, sets=1, failed=0), **parts)


def one_of_each():
    return changed(make_result(replicas=1, sets=1, points=1, rows=1, failed=0), title="")


def nothing_converged():
    result = make_result(replicas=3, sets=1, failed=0)
    return changed(result, replicas=replace(result.replicas, status=("quarantined", "no_positivity", "quarantined")))


def nothing_measured():
    result = make_result(replicas=3, sets=1, points=0, failed=0)
    empty = {k: v[:0] for k, v in vars(result.history).items()}
    return changed(result, history=replace(result.history, **empty), summary={})


def nothing_validated():
    result = make_result(replicas=3, failed=0)
    result.replicas.chi2_validation[:] = np.nan
    result.history.validation[:] = np.nan
    return changed(
        result, datasets=(), summary={"closure": {"level": 0, "law": "a <toy>", "chi2_to_truth_per_point": None}}
    )


@pytest.mark.parametrize("make", [one_of_each, nothing_converged, nothing_measured, nothing_validated])
def test_odd_results_have_a_page_too(tmp_path, make):
    Page(render_html(tmp_path, make()))


def test_report_json_is_the_summary_with_null_for_what_is_not_finite(tmp_path):
    result = changed(summary={"a": float("nan"), "b": np.float64(1.5), "c": [np.int64(3), {"d": np.inf}], "e": "ü"})
    write_json(tmp_path, result.summary)
    text = (tmp_path / "report.json").read_text()
    assert json.loads(text, parse_constant=pytest.fail) == {"a": None, "b": 1.5, "c": [3, {"d": None}], "e": "ü"}
    store.write(tmp_path / "results.h5", result)
    assert store.read(tmp_path / "results.h5").summary == json.loads(text)


def test_a_disk_that_fails_leaves_the_old_report(tmp_path, monkeypatch, result):
    (tmp_path / "report.json").write_text("old")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(StorageError, match=r"report\.json of before is intact"):
        write_json(tmp_path, result.summary)
    assert (tmp_path / "report.json").read_text() == "old"


def test_a_report_needs_neither_tensorflow_nor_pyplot(tmp_path):
    code = (
        "import sys, pathlib\nfrom tests.make_result import make_result\n"
        "from tfperf.workloads.pdf.report.html import write_report\nassert 'matplotlib' not in sys.modules\n"
        "write_report(pathlib.Path(sys.argv[1]), make_result(replicas=2, sets=1, failed=0))\n"
        "assert not {'tensorflow', 'matplotlib.pyplot'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path], check=True)


@pytest.mark.slow
def test_a_full_report_stays_small(tmp_path):
    write_report(tmp_path, make_result(replicas=100, sets=15, points=144, rows=500, failed=3))
    assert (tmp_path / "report.html").stat().st_size < 5e6
