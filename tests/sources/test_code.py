"""Functions of the user's own files, and what goes wrong in them."""

import pytest

from tfperf.errors import UserCodeError, UserError
from tfperf.sources.code import CodeReference, call_function

TEXT = """
import helper

class Thing:
    pass

number = 3

def build(units, depth=2):
    return helper.multiply(units, depth)

def fail():
    helper.divide(1, 0)

def leave():
    raise SystemExit(3)
"""
HELPER = """
def multiply(a, b):
    return a * b

def divide(a, b):
    return a / b
"""


@pytest.fixture
def call(tmp_path):
    (tmp_path / "tfperf_made_up_nets.py").write_text(TEXT)
    (tmp_path / "helper.py").write_text(HELPER)

    def carry_out(function, **arguments):
        return call_function(
            CodeReference.parse(f"{tmp_path}/tfperf_made_up_nets.py:{function}"), arguments, "model.build"
        )

    return carry_out


def test_a_function_finds_the_modules_beside_its_file(call):
    assert call("build", units=3) == 6 and call("build", units=3, depth=5) == 15


def test_a_function_of_a_module(call):
    assert call_function(CodeReference.parse("textwrap:dedent"), {"text": "  a"}, "model.build") == "a"


@pytest.mark.parametrize(
    ("function", "arguments", "said"),
    [
        ("bild", {}, "there is no such function; .*nets.py has: build, fail, leave$"),
        ("number", {}, "is no function; .* has: build, fail, leave$"),
        ("build", {"unitz": 3}, "missing a required argument: 'units'; it is build\\(units, depth=2\\)"),
        ("build", {"units": 1, "unitz": 3}, "got an unexpected keyword argument 'unitz'"),
    ],
)
def test_what_cannot_be_called_is_refused(call, function, arguments, said):
    with pytest.raises(UserError, match=said):
        call(function, **arguments)


@pytest.mark.parametrize(
    ("function", "last"), [("fail", "ZeroDivisionError: division by zero"), ("leave", "SystemExit: 3")]
)
def test_errors_are_told_from_the_users_file_on(call, tmp_path, function, last):
    with pytest.raises(UserCodeError) as caught:
        call(function)
    lines = caught.value.faults
    assert lines[0].startswith(f"model.build: tfperf_made_up_nets.py:{function}: raised ") and lines[-1] == last
    assert f'File "{tmp_path}/tfperf_made_up_nets.py"' in lines[1]
    assert not [line for line in lines if "/sources/code.py" in line], "nothing of tfperf's"


def test_a_file_that_is_no_python_says_where(tmp_path):
    (tmp_path / "tfperf_made_up_broken.py").write_text("def build(:\n")
    with pytest.raises(UserCodeError) as caught:
        call_function(CodeReference.parse(f"{tmp_path}/tfperf_made_up_broken.py:build"), {}, "model.build")
    assert 'tfperf_made_up_broken.py", line 1' in "".join(caught.value.faults)
    assert caught.value.faults[-1].startswith("SyntaxError")


def test_helpers_of_one_name_in_two_folders_are_each_files_own(tmp_path):
    for number, folder in enumerate(("one", "two")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tfperf_made_up_helper.py").write_text(f"number = {number}\n")
        text = "def build():\n    import tfperf_made_up_helper\n    return tfperf_made_up_helper.number\n"
        (tmp_path / folder / "tfperf_made_up_card.py").write_text(text)

    def call(folder):
        return call_function(CodeReference(str(tmp_path / folder / "tfperf_made_up_card.py"), "build"), {}, "model")

    assert [call("one"), call("two"), call("one"), call("two")] == [0, 1, 0, 1]


def test_what_was_changed_is_read_again(tmp_path):
    (tmp_path / "tfperf_made_up_part.py").write_text("number = 1\n")
    card = tmp_path / "tfperf_made_up_whole.py"
    card.write_text("import tfperf_made_up_part as part\ndef build():\n    return part.number\n")
    reference = CodeReference(str(card), "build")
    assert call_function(reference, {}, "model") == 1
    (tmp_path / "tfperf_made_up_part.py").write_text("number = 1_000\n")
    assert call_function(reference, {}, "model") == 1000
