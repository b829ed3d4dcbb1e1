"""The report as a browser shows it."""

import shutil
import subprocess

import pytest

from tests.make_result import make_result
from tfperf.report.html import write_report

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


def browse(folder, *arguments):
    return subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1200,9000",
         f"--user-data-dir={folder / 'profile'}", *arguments, (folder / "report.html").as_uri()],
        check=True, capture_output=True, timeout=120, cwd=folder,
    )  # fmt: skip


def test_the_rendered_page_has_the_table_and_no_markup_of_the_title(folder):
    dom = browse(folder, "--dump-dom").stdout.decode()
    assert "<td>HERA_NC_001GEV_EP-SIGMARED</td>" in dom
    assert "<td>all, with correlations</td>" in dom
    assert "A made-up fit &lt;b&gt;&amp; more&lt;/b&gt;" in dom


def test_the_page_is_shown_without_network(folder):
    # every host name resolves to nothing, and the net log says whether one was asked for
    log = folder / "net.json"
    browse(folder, "--host-resolver-rules=MAP * ~NOTFOUND", "--screenshot=shot.png", f"--log-net-log={log}")
    asked = [line for line in log.read_text().splitlines() if '"url":"http' in line and "report.html" in line]
    assert asked == []
    assert (folder / "shot.png").stat().st_size > 50_000  # an empty page of this size has some 20 kB
