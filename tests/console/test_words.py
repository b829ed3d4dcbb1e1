"""Messages: bounded, without commands to a terminal, and dropped where nobody takes them."""

import io
from types import SimpleNamespace

import pytest

from tests.console.fakes import Gone
from tfperf.cli import main
from tfperf.console.stages import Stages
from tfperf.errors import UserError
from tfperf.runcard import loader
from tfperf.runs import flow
from tfperf.workloads.job import FinishedFit
from tfperf.workloads.options import Options
from tfperf.workloads.pdf.workload import Pdf

MOST_BYTES = 64_000
READ = ("fit", "card.yaml", "-o", "run", "--quiet")  # says nothing before the faults of the card
HOSTILE = "a\x1b[31mb\x07c\rd\x9be\u202ef\x7fg\udcffh"


def call(monkeypatch, *arguments, error=None):
    """Exit code of the command line; `error` is what reading a card raises."""
    if error is not None:
        monkeypatch.setattr(loader, "load_card", lambda *_: (_ for _ in ()).throw(error))
    with pytest.raises(SystemExit) as end:
        main([str(a) for a in arguments], prog_name="tfperf")
    return end.value.code


def test_faults_are_told_without_commands_to_the_terminal(monkeypatch, capsys):
    assert call(monkeypatch, *READ, error=UserError(HOSTILE, "second")) == 2
    shown = r"a\x1b[31mb\x07c\rd\x9be\u202ef\x7fg\udcffh"
    assert capsys.readouterr().err == f"error: {shown}\nerror: second\n"


@pytest.mark.parametrize("option", ["--no\x1b[2Jsuch", "--steps=\x1b[2J"])
def test_faults_of_the_command_line_too(monkeypatch, capsys, option):
    assert call(monkeypatch, "profile", "card.yaml", option) == 2
    error = capsys.readouterr().err
    assert "\x1b" not in error and r"\x1b[2J" in error


@pytest.mark.parametrize("letter", ["x", "χ", "\x1b"])
@pytest.mark.parametrize("faults", [1, 100, 1000])
def test_faults_never_flood(monkeypatch, capsys, letter, faults):
    assert call(monkeypatch, *READ, error=UserError(*[letter * 100_000] * faults)) == 2
    error = capsys.readouterr().err
    assert len(error.encode()) <= MOST_BYTES + 1 and error.endswith(("...\n", " ... cut\n", " more\n"))
    assert faults == 1 or error.count("error: ") > 1, "not one alone"


def test_ordinary_text_stays_as_it_is(monkeypatch, capsys):
    text = "χ2/N, 中文, é, 😀\tcolumns\nlines [bold] 100 %"
    call(monkeypatch, *READ, error=UserError(text))
    assert capsys.readouterr().err == f"error: {text}\n"


@pytest.mark.parametrize("stream", [None, Gone(), Gone(BrokenPipeError()), Gone(RuntimeError("custom stream"))])
@pytest.mark.parametrize(
    ("error", "code"), [(UserError("a fault"), 2), (KeyboardInterrupt(), 130), (None, 0)], ids=["fault", "ctrl-c", "ok"]
)
def test_the_exit_code_tells_the_result_where_words_do_not_arrive(monkeypatch, tmp_path, stream, error, code):
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr("sys.stdout", stream)
    verb = ["init", tmp_path / "card.yaml"] if error is None else ["check", "card.yaml"]
    assert call(monkeypatch, *verb, error=error) == code
    assert (tmp_path / "card.yaml").exists() == (error is None)


@pytest.mark.parametrize("stream", [None, Gone(), Gone(ValueError("I/O operation on closed file"))])
def test_a_schema_that_does_not_arrive_is_an_error(monkeypatch, capsys, stream):
    monkeypatch.setattr("sys.stdout", stream)
    assert call(monkeypatch, "schema") == 2
    error = capsys.readouterr().err
    assert error.startswith("error: stdout: could not be written: ") and error.count("\n") == 1


def test_letters_that_cannot_be_encoded_are_no_reason_to_end(monkeypatch):
    buffer = io.BytesIO()
    monkeypatch.setattr("sys.stderr", io.TextIOWrapper(buffer, "ascii"))
    assert call(monkeypatch, *READ, error=UserError("χ2 of a fit")) == 2
    assert buffer.getvalue() == rb"error: \u03c72 of a fit" + b"\n"


@pytest.mark.parametrize("stream", [None, Gone(), io.TextIOWrapper(io.BytesIO(), "ascii")])
def test_a_finished_run_is_returned_where_stderr_is_broken(monkeypatch, stream, tmp_path):
    monkeypatch.setattr("sys.stderr", stream)
    finished = FinishedFit(None, {"of": "a run that is done"})
    monkeypatch.setattr(flow, "prepare_parts", lambda job: [])
    monkeypatch.setattr(Pdf, "build_job", lambda self, card, session: SimpleNamespace(read_finished=lambda: finished))
    card = SimpleNamespace(workload="pdf")
    assert flow.fit_card(card, tmp_path / "χ", Options(), Stages()) is finished  # type: ignore[arg-type]
