"""TensorFlow finds the programs of earlier processes, never a damaged one, and computes the same bits."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager

import pytest
import tensorflow as tf

from tests.make_pack import make_card
from tests.runs.conftest import same_bits
from tfperf.data import programs as disk
from tfperf.data.cache import VARIABLE
from tfperf.measure.quiet import LOG_LEVEL
from tfperf.train import program_cache as programs

RUNS = programs._is_started


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


def test_program_is_compiled_once(compile_in_child, tmp_path):
    empty = compile_in_child()
    (program,) = kept(tmp_path)
    assert empty["offered"] == [] and len(empty["made"]) == 1 and empty["flags"] is None
    os.utime(program, (0, 0))
    full = compile_in_child()
    assert full["offered"] == empty["made"] and full["made"] == [] and program.stat().st_mtime > 0, "it was used"
    assert empty["bits"] == full["bits"] and len(kept(tmp_path)) == 1


@pytest.mark.slow
def test_program_is_compiled_again_where_it_is_damaged(compile_in_child, tmp_path):
    empty = compile_in_child()
    (program,) = kept(tmp_path)
    whole = program.read_bytes()
    # in the middle of the machine code; the text of it is at the start
    program.write_bytes(whole[:-2000] + bytes([whole[-2000] ^ 1]) + whole[-1999:])
    damaged = compile_in_child()
    assert damaged["offered"] == [] and damaged["made"] == empty["made"]
    full = compile_in_child()
    assert full["offered"] == empty["made"] and full["made"] == []
    assert empty["bits"] == damaged["bits"] == full["bits"] and len(kept(tmp_path)) == 1


@pytest.fixture
def flags_read(monkeypatch):
    """The flags of each time that TensorFlow would read them, in a process where it does not run yet."""
    found = []
    monkeypatch.setattr(programs.ProcessPrograms, "pointed", False)
    monkeypatch.setattr(programs.ProcessPrograms, "current", None)
    monkeypatch.setattr(programs, "_is_started", lambda: False)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda: found.append(os.environ.get(disk.VARIABLE)))
    monkeypatch.setenv(LOG_LEVEL, "3")
    monkeypatch.delenv(disk.VARIABLE, raising=False)
    return found


def test_tensorflow_reads_once_where_programs_are(flags_read):
    programs.point_tensorflow(True)
    programs.point_tensorflow("renew")
    assert len(flags_read) == 1 and f"cache_directory={programs.MEMORY} " in flags_read[0]
    assert disk.VARIABLE not in os.environ, "nor do child processes"


@pytest.mark.parametrize("what", ["off", "own cache", "loud", "runs already"])
def test_tensorflow_of_the_user_is_left_alone(flags_read, monkeypatch, what):
    if what == "own cache":
        monkeypatch.setenv(disk.VARIABLE, "--tf_xla_persistent_cache_directory=/mine")
    if what == "loud":
        monkeypatch.delenv(LOG_LEVEL)
    if what == "runs already":
        tf.constant(1)
        monkeypatch.setattr(programs, "_is_started", RUNS)
    programs.point_tensorflow(what != "off")
    programs.offer_programs(what != "off", 2)
    assert flags_read == [] and programs.ProcessPrograms.current is None


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
    homeless = {VARIABLE: "", "HOME": str(tmp_path / "file" / "home"), "XDG_CACHE_HOME": ""}
    got = compile_in_child(**settings.get(what, homeless))
    assert got["offered"] == [] and got["bits"] == compile_in_child("engine.cache=false")["bits"]


@pytest.fixture
def fit(tmp_path):
    """Starts `tfperf fit` of a small card with XLA, in a process; settings: of its card."""
    card = make_card(tmp_path, replicas=2, steps=20)

    def begin(name, cache, **settings):
        fixed = {"engine.xla": "true", "engine.form": "folded", "train.steps_per_call": 20} | settings
        sets = [word for key, value in fixed.items() for word in ("--set", f"{key}={value}")]
        command = [sys.executable, "-m", "tfperf", "fit", str(card), "-o", str(tmp_path / name), *sets]
        settings = os.environ | {VARIABLE: str(cache)}
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=settings)

    return begin


def end(process):
    words = process.communicate()[0]
    assert process.returncode in (0, 3) and "Traceback" not in words and "warning" not in words, words


@contextmanager
def mounted(folder, size):
    """The folder as a disk of so many bytes; yields a function that makes it read-only."""
    folder.mkdir()
    options = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(options, capture_output=True).returncode:
        pytest.skip("this user may mount nothing")
    try:
        yield lambda: subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.slow
def test_a_fit_finds_the_same_whatever_its_programs_are(fit, tmp_path):
    cache = tmp_path / "cache"
    end(fit("off", cache, **{"engine.cache": "false"}))
    assert not cache.exists()
    for process in [fit(name, cache) for name in ("one", "other")]:  # both at once, with an empty cache
        end(process)
    whole = {path: path.read_bytes() for path in kept(tmp_path)}
    assert whole, "the steps at least"
    end(fit("full", cache))
    for i, path in enumerate(kept(tmp_path)):
        content = path.read_bytes()
        half = content[: len(content) // 2]
        path.write_bytes([half + b"\1" + content[len(half) + 1 :], half, b"", b"?" * len(half)][i % 4])
    end(fit("damaged", cache))
    end(fit("renewed", cache, **{"engine.cache": "renew"}))
    for name in ("one", "other", "full", "damaged", "renewed"):
        same_bits(tmp_path / "off", tmp_path / name)


@pytest.mark.slow
def test_a_fit_whose_cache_is_on_a_full_or_read_only_disk(fit, tmp_path):
    end(fit("off", tmp_path, **{"engine.cache": "false"}))
    with mounted(tmp_path / "full", 64 * 1024):
        end(fit("on full", tmp_path / "full"))
    with mounted(tmp_path / "cache", 2**28) as close:
        for name in ("first", "second"):
            end(fit(name, tmp_path / "cache"))
        close()
        before = {path: path.stat().st_mtime for path in kept(tmp_path)}
        end(fit("read only", tmp_path / "cache"))
        assert before and before == {path: path.stat().st_mtime for path in kept(tmp_path)}
    for name in ("on full", "first", "second", "read only"):
        same_bits(tmp_path / "off", tmp_path / name)
