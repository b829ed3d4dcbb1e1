"""Functions of the user's own files, and what goes wrong in them."""

from functools import partial

import numpy as np
import pytest

from tfperf.errors import UserCodeError, UserError
from tfperf.sources.code import CodeReference, call_function
from tfperf.sources.given import ORIGIN, give_objects

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


def test_modules_of_many_folders_in_any_order_are_each_folders_own(tmp_path):
    count, rng = 4, np.random.default_rng(7)
    for number in range(count):
        folder = tmp_path / str(number)
        (folder / "tfperf_made_up_space").mkdir(parents=True)
        (folder / "tfperf_made_up_space" / "leaf.py").write_text(
            f"number = {number}\n"
        )  # a package without __init__.py
        (folder / "tfperf_made_up_config.py").write_text(f"number = {number}\n")
        text = "import tfperf_made_up_config\nfrom tfperf_made_up_space import leaf\n"
        (folder / "tfperf_made_up_model.py").write_text(
            f"{text}def build():\n    return tfperf_made_up_config.number, leaf.number\n"
        )
    order = rng.integers(0, count, 40).tolist()
    found = [
        call_function(CodeReference(str(tmp_path / str(n) / "tfperf_made_up_model.py"), "build"), {}, "model")
        for n in order
    ]
    assert found == [(n, n) for n in order]


def test_a_module_of_the_programs_own_that_has_changed_is_refused(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "tfperf_made_up_own.py"
    file.write_text("def build():\n    return 1\n")
    reference = CodeReference("tfperf_made_up_own", "build")
    assert call_function(reference, {}, "model") == 1
    file.write_text("def build():\n    return 2_000\n")
    with pytest.raises(UserError, match="was changed after this process had imported it; start the process again"):
        call_function(reference, {}, "model")


def test_partials_and_classes_are_called_where_a_program_gives_them():
    with give_objects({"one": partial(int, "12", base=8), "two": dict, "three": 5}):
        found = [call_function(CodeReference(ORIGIN, name), {}, "model") for name in ("one", "two", "three")]
    assert found == [10, {}, 5]


def test_long_tracebacks_and_causes_are_told_in_short(tmp_path):
    file = tmp_path / "tfperf_made_up_deep.py"
    file.write_text(
        "def dig(n):\n    return dig(n - 1) if n % 2 else down(n - 1)\n\ndef down(n):\n    if n < 0:\n        try:\n"
        "            {}['a']\n        except KeyError as error:\n            raise RuntimeError('no') from error\n"
        "    return dig(n)\n\ndef build():\n    return dig(200)\n"
    )
    with pytest.raises(UserCodeError) as caught:
        call_function(CodeReference(str(file), "build"), {}, "model")
    assert len(caught.value.faults) < 140 and caught.value.faults[-1] == "raised from KeyError: 'a'"
