"""Pictures drawn in several processes are those drawn in one, whatever becomes of the processes."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from base64 import b64encode
from contextlib import suppress
from pathlib import Path

import pytest

from tests.make_result import make_result
from tfperf.report import style
from tfperf.report.style import apply_style
from tfperf.workloads.pdf.report import pool
from tfperf.workloads.pdf.report.html import render_html
from tfperf.workloads.pdf.report.pictures import CHI2, draw, list_pictures, make_data_key
from tfperf.workloads.pdf.report.pool import DrawingPool

SOME = [CHI2, make_data_key("BCDMS"), make_data_key("NMC")]  # enough, and soon drawn
ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def result():
    return make_result(replicas=4, sets=2, failed=1)


@pytest.fixture(scope="module")
def alone(result):
    """Each picture as the other processes make it, which know nothing of the tests' coarse ones."""
    with pytest.MonkeyPatch.context() as patch, apply_style():
        patch.setattr(style, "DPI", 120)
        return {picture: draw(result, picture) for picture in SOME}


@pytest.fixture
def fine(monkeypatch):
    monkeypatch.setattr(style, "DPI", 120)


@pytest.fixture(autouse=True)
def _some(monkeypatch):
    monkeypatch.setattr(pool, "list_pictures", lambda _: SOME)


def processes():
    """Numbers of the processes that this one started to draw, and that live; other tests may have left some."""
    found = set()
    for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        with suppress(FileNotFoundError):  # it has ended meanwhile
            if pool.COMMAND[-1].encode() in Path(f"/proc/{child}/cmdline").read_bytes():
                found.add(int(child))
    return found


def refuse_to_draw(*_):
    raise AssertionError("drawn here")


def test_other_processes_draw_the_same_bytes(result, alone, monkeypatch):
    monkeypatch.setattr(pool, "_pop_pictures", only_there(pool._pop_pictures))
    monkeypatch.setattr(pool, "PATIENCE_SECONDS", 300.0)
    with DrawingPool(most=2) as several:
        several.start()
        assert several.draw(result) == alone
    assert not processes()


def only_there(real):
    """What is taken from the list of pictures, for the threads that serve other processes alone."""

    def taken(todo):
        if threading.current_thread() is not threading.main_thread():
            yield from real(todo)

    return taken


@pytest.mark.usefixtures("fine")
def test_this_process_draws_alone_where_there_is_one_core(result, alone, monkeypatch):
    monkeypatch.setattr(pool, "count_cores", lambda: 1)
    monkeypatch.setattr(subprocess, "Popen", refuse_to_draw)
    with DrawingPool() as one:
        assert one.draw(result) == alone


@pytest.mark.usefixtures("fine")
@pytest.mark.parametrize("program", ["/no/such/python", "/bin/false"])
def test_programs_that_do_not_draw_are_done_without(result, alone, monkeypatch, program):
    monkeypatch.setattr(sys, "executable", program)
    with DrawingPool(most=2) as several:
        assert several.draw(result) == alone
    assert not processes()


@pytest.mark.usefixtures("fine")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_what_a_process_leaves_is_drawn_here(result, alone, monkeypatch, number):
    monkeypatch.setattr(pool, "PATIENCE_SECONDS", 0.1)
    with DrawingPool(most=1) as several:
        several.start()
        assert several._processes is not None
        child = several._processes[0].pid
        os.kill(child, number)
        assert several.draw(result) == alone
    assert not processes()


def test_processes_end_with_what_is_raised_beside_them(result, monkeypatch):
    monkeypatch.setattr(pool, "draw", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt), DrawingPool(most=1) as several:
        several.draw(result)
    assert not processes()
    assert gc.isenabled()


def test_a_process_ends_with_the_one_that_started_it():
    code = (
        "import os, signal, time\nfrom tfperf.workloads.pdf.report.pool import DrawingPool\n"
        "pool = DrawingPool(most=1)\npool.start()\nprint(pool._processes[0].pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    status, end = Path("/proc") / done.stdout.strip() / "stat", time.monotonic() + 60
    while status.exists() and " Z " not in status.read_text():
        assert time.monotonic() < end, "it lives on"
        time.sleep(0.05)


def test_a_script_without_a_guard_runs_once(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "print('script')\nfrom tests.make_result import make_result\nfrom tfperf.workloads.pdf.report import pool\n"
        "pool.list_pictures = lambda _: [('chi2',)]\nwith pool.DrawingPool(most=1) as several:\n"
        "    print(*several.draw(make_result(replicas=2, sets=1, failed=0)))\n"
    )
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path}, cwd=tmp_path
    )
    assert (done.stdout, done.stderr, done.returncode) == ("script\n('chi2',)\n", "", 0)


def test_who_draws_imports_no_tensorflow():
    code = (
        "import sys, io\nsys.stdin = io.TextIOWrapper(io.BytesIO())\n"
        "from tfperf.workloads.pdf.report.draw import main\nmain()\n"
        "assert 'matplotlib' in sys.modules\nassert not {'tensorflow', 'keras', 'h5py', 'scipy'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)


def test_a_page_shows_what_a_team_drew(result, tmp_path):
    class Drawn(DrawingPool):
        def draw(self, result):
            return {picture: repr(picture).encode() for picture in list_pictures(result)}

    text = render_html(tmp_path, result, Drawn())
    for picture in list_pictures(result):
        assert text.count(b64encode(repr(picture).encode()).decode()) == 1
