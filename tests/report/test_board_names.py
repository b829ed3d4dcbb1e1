"""TensorBoard answers to this machine's own names alone: a page of the net that leads its name here reads nothing."""

import http.client
import re
import signal
import subprocess
import sys

import pytest

from tests.make_result import make_result
from tfperf.workloads.pdf.report.events import write_events

LISTING = "/data/plugins_listing"
# TensorBoard does without TensorFlow, which takes seconds to import
WITHOUT = "import sys; sys.modules['tensorflow'] = None; from tfperf.cli import main; main(['board', sys.argv[1]])"


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    folder = tmp_path_factory.mktemp("events")
    write_events(folder, make_result(replicas=2, sets=1, failed=0))
    command = [sys.executable, "-c", WITHOUT, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as board:
        assert board.stdout is not None
        found = re.match(r"http://127\.0\.0\.1:(\d+)/", board.stdout.readline())
        assert found
        yield int(found[1])
        board.send_signal(signal.SIGINT)
        assert board.wait(30) == 0


def ask(port, *hosts, path=LISTING, **headers):
    """Status and body of a request with the Host headers as they are given: none, one or more."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.putrequest("GET", path, skip_host=True)
    for name, value in [*(("Host", host) for host in hosts), *headers.items()]:
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


@pytest.mark.parametrize("host", ["localhost", "LocalHost:{}", "127.0.0.1:{}", "127.8.7.6", "[::1]", "[::1]:{}"])
def test_names_of_this_machine_are_answered(port, host):
    status, text = ask(port, host.format(port), Origin=f"http://localhost:{port}")
    assert status == 200 and "scalars" in text


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{}", "localhost.evil.example", "127.0.0.1.evil.example:{}", "evil@localhost", "",
     "localhost,evil.example", "10.0.0.1", "0.0.0.0", "[::2]:{}", "127.1", "2130706433", "localhost:port"],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/", LISTING, "/data/plugin/scalars/tags"])
def test_other_names_are_refused_in_words(port, host, path):
    status, text = ask(port, host.format(port), path=path)
    assert status == 403 and "answers to localhost" in text


def test_none_several_and_hidden_names_are_refused(port):
    assert ask(port)[0] == 403
    assert ask(port, "localhost", "evil.example")[0] == 403
    assert ask(port, "localhost", path=f"http://evil.example{LISTING}")[0] == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost.evil.example:{}", ""])
def test_pages_of_other_sites_are_refused(port, origin):
    assert ask(port, "localhost", Origin=origin.format(port))[0] == 403
