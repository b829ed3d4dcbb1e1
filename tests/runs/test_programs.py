"""TensorFlow finds the programs of earlier processes, never a damaged one, and computes the same bits."""

import json
import os
import subprocess
import sys

import pytest

from tests.make_pack import make_card
from tfperf.data import programs as disk
from tfperf.data.cache import VARIABLE
from tfperf.measure.quiet import LOG_LEVEL


@pytest.fixture
def compile_in_child(tmp_path):
    """What a process prints that compiles a function; settings: of its environment, None to remove one."""
    card = make_card(tmp_path)

    def run(*overrides, **settings):
        given = {k: v for k, v in os.environ.items() if k not in (LOG_LEVEL, disk.VARIABLE)}
        given |= {VARIABLE: str(tmp_path / "cache")} | settings
        command = [sys.executable, "-m", "tests.runs.compile_child", str(card), *overrides]
        done = subprocess.run(command, capture_output=True, text=True, env=given)
        assert done.returncode == 0, done.stderr
        assert "cpu_aot_loader" not in done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


def kept(tmp_path):
    return sorted(tmp_path.glob(f"cache/programs/*/*{disk.SUFFIX}"))


def test_program_is_compiled_once_and_again_where_it_is_damaged(compile_in_child, tmp_path):
    empty = compile_in_child()
    (program,) = kept(tmp_path)
    whole = program.read_bytes()
    assert empty["offered"] == [] and len(empty["made"]) == 1 and empty["flags"] is None

    # in the middle of the machine code; the text of it is at the start
    program.write_bytes(whole[:-2000] + bytes([whole[-2000] ^ 1]) + whole[-1999:])
    damaged = compile_in_child()
    assert damaged["offered"] == [] and damaged["made"] == empty["made"]

    full = compile_in_child()
    assert full["offered"] == empty["made"] and full["made"] == [] and full["left"] == []
    assert empty["bits"] == damaged["bits"] == full["bits"] and len(kept(tmp_path)) == 1


@pytest.mark.slow
def test_what_each_word_of_the_card_does(compile_in_child, tmp_path):
    first = compile_in_child("engine.cache=false")
    assert first["made"] == [] and not kept(tmp_path)
    second = compile_in_child("engine.cache=renew")
    (program,) = kept(tmp_path)
    before = program.stat().st_ino
    third = compile_in_child("engine.cache=renew")
    assert third["offered"] == [] and third["made"] == second["made"] and program.stat().st_ino != before
    assert first["bits"] == second["bits"] == third["bits"]


@pytest.mark.slow
def test_flags_of_the_user(compile_in_child, tmp_path):
    own = f"--tf_xla_persistent_cache_directory={tmp_path / 'own'}"
    mine = compile_in_child(TF_XLA_FLAGS=own)
    assert mine["flags"] == own and len(list((tmp_path / "own").iterdir())) == 1 and not kept(tmp_path)
    other = "--tf_xla_max_cluster_size=1000"
    both = [compile_in_child(TF_XLA_FLAGS=other) for _ in range(2)]
    assert both[0]["flags"] == other and both[0]["made"] == both[1]["offered"] and both[1]["made"] == []
    assert compile_in_child()["offered"] == [], "other flags, another place"


@pytest.mark.slow
@pytest.mark.parametrize("what", ["a file", "no home", "below a file"])
def test_cache_that_cannot_be_is_no_error(compile_in_child, tmp_path, what):
    (tmp_path / "file").write_text("")
    settings = {"a file": {VARIABLE: str(tmp_path / "file")}, "below a file": {VARIABLE: str(tmp_path / "file" / "x")}}
    homeless = {VARIABLE: "", "HOME": "/nonexistent/home", "XDG_CACHE_HOME": ""}
    got = compile_in_child(**settings.get(what, homeless))
    assert got["offered"] == [] and got["bits"] == compile_in_child("engine.cache=false")["bits"]
