"""The report as a browser shows it."""

import shutil
import subprocess

import pytest

from tests.make_result import make_result
from tfperf.workloads.pdf.report.html import write_report

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome on the PATH"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    write_report(folder, make_result(replicas=4, sets=1, failed=1))
    return folder


def browse(folder, *arguments, page="report.html"):
    assert CHROMIUM is not None
    return subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1200,9000",
         f"--user-data-dir={folder / 'profile'}", *arguments, (folder / page).as_uri()],
        check=True, capture_output=True, timeout=120, cwd=folder,
    )  # fmt: skip


def test_the_rendered_page_has_the_table_and_no_markup_of_the_title(folder):
    dom = browse(folder, "--dump-dom").stdout.decode()
    assert "<td>HERA_NC_001GEV_EP-SIGMARED</td>" in dom
    assert "<td>all, with correlations</td>" in dom
    assert "A made-up fit &lt;b&gt;&amp; more&lt;/b&gt;" in dom


def requests(folder, page):
    """Lines of the browser's net log about what the page asked of the network; no host name resolves meanwhile.

    The browser has requests of its own; those of a page carry its origin.
    """
    log = folder / "net.json"
    arguments = ("--host-resolver-rules=MAP * ~NOTFOUND", f"--screenshot={page}.png", f"--log-net-log={log}")
    browse(folder, *arguments, page=page)
    lines = log.read_text().splitlines()
    return [line for line in lines if '"url":"http' in line and '"network_isolation_key":"file://' in line]


def test_the_page_is_shown_without_network(folder):
    assert requests(folder, "report.html") == []
    text = (folder / "report.html").read_text()
    (folder / "blind.html").write_text(text.replace("img-src data:", "img-src 'none'"))
    browse(folder, "--screenshot=blind.html.png", page="blind.html")
    sizes = [(folder / name).stat().st_size for name in ("report.html.png", "blind.html.png")]
    assert sizes[0] > 1.05 * sizes[1]  # the pictures are there


def test_the_net_log_would_show_a_request(folder):
    (folder / "other.html").write_text('<img src="http://example.invalid/x.png">')
    assert requests(folder, "other.html")
