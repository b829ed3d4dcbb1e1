"""The first words of a command stand before anything that takes long is loaded; TensorFlow only for sound cards."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.make_pack import make_card

ROOT = Path(__file__).parents[1]
LOADED = 7  # exit code of a library that is not to be loaded
STOP = f"import os; open(os.environ['LOADED'], 'w').close(); raise SystemExit({LOADED})"
WAIT = "import os, time; open(os.environ['LOADED'], 'w').close(); time.sleep(60)"


def begin(folder, library, code, *arguments, **streams):
    """`tfperf` as a process in which a library is a few lines of code; folder/loaded is written when it is imported."""
    (folder / "stand_in").mkdir()
    (folder / "stand_in" / f"{library}.py").write_text(code)
    path = os.pathsep.join([str(folder / "stand_in"), str(ROOT)])
    settings = os.environ | {"PYTHONPATH": path, "LOADED": str(folder / "loaded")}
    command = [sys.executable, "-m", "tfperf", *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=settings, **streams)


def lines(process):
    """Exit code, and what was said without the times."""
    error = process.communicate(timeout=60)[1]
    return process.returncode, [re.sub(r"^\d:\d\d:\d\d ", "", line) for line in error.splitlines()]


@pytest.mark.parametrize("verb", ["fit", "check", "closure"])
def test_the_first_line_stands_before_libraries_are_loaded(tmp_path, verb):
    output = () if verb == "check" else ("-o", tmp_path / "run")
    code, said = lines(begin(tmp_path, "numpy", STOP, verb, "card.yaml", *output))
    assert (code, said) == (LOADED, ["reading card.yaml"]) and (tmp_path / "loaded").exists()


@pytest.mark.parametrize("library", ["numpy", "pydantic", "tensorflow"])
def test_help_names_all_verbs_and_loads_nothing_that_takes_long(tmp_path, library):
    process = begin(tmp_path, library, STOP, "--help", stdout=subprocess.PIPE)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and not (tmp_path / "loaded").exists()
    assert {"fit", "doctor", "closure", "import-nnpdf"} <= {line.split()[0] for line in output.splitlines() if line}


def test_stages_are_told_before_tensorflow_is_loaded(tmp_path):
    card = make_card(tmp_path)
    code, said = lines(begin(tmp_path, "tensorflow", STOP, "fit", card, "-o", tmp_path / "run"))
    assert code == LOADED
    assert said == [f"reading {card}", "reading data", "building the problem", "importing TensorFlow"]


def test_quiet_says_nothing(tmp_path):
    arguments = "fit", make_card(tmp_path), "-o", tmp_path / "run", "-q"
    assert lines(begin(tmp_path, "tensorflow", STOP, *arguments)) == (LOADED, [])


@pytest.mark.parametrize("override", ["train.steps=0", "data.sets=[{name: AAA_F3}]", "data.pack=card.yaml"])
def test_a_faulty_card_ends_without_tensorflow(tmp_path, override):
    arguments = "fit", make_card(tmp_path), "-o", tmp_path / "run", "--set", override
    code, said = lines(begin(tmp_path, "tensorflow", STOP, *arguments))
    assert code == 2 and said[-1].startswith("error: ") and not (tmp_path / "loaded").exists()


def test_a_check_needs_no_tensorflow(tmp_path):
    process = begin(tmp_path, "tensorflow", STOP, "check", make_card(tmp_path), stdout=subprocess.DEVNULL)
    assert lines(process)[0] == 0 and not (tmp_path / "loaded").exists()


@pytest.mark.parametrize("module", ["tfperf.study.sweep", "tfperf.study.ablation", "tfperf.study.placements"])
def test_what_starts_trials_needs_no_tensorflow(tmp_path, module):
    (tmp_path / "tensorflow.py").write_text(f"raise SystemExit({LOADED})")
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = subprocess.run([sys.executable, "-c", f"import {module}"], env=os.environ | {"PYTHONPATH": path}, timeout=60)
    assert done.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_tensorflow_is_loaded(tmp_path, number):
    process = begin(tmp_path, "tensorflow", WAIT, "fit", make_card(tmp_path), "-o", tmp_path / "run")
    while not (tmp_path / "loaded").exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(number)
    code, said = lines(process)
    assert code == 128 + number and said[-1] == f"stopped by signal {number}; go on with --resume"
