import io
import os
import signal
import subprocess
import sys
from collections import namedtuple

import pytest
from rich.console import Console

from tfperf.measure import doctor
from tfperf.measure.doctor import DoctorCheck

GOOD = {
    "tensorflow": {"found": "2.21.3"}, "keras": {"found": ["3.15.1", "tensorflow"]}, "devices": {"found": ["CPU"]},
    "xla": {"found": 285.0},
}  # fmt: skip


def state(check, *words):
    assert all(word in f"{check.found}; {check.advice}" for word in words), check
    assert bool(check.advice) == (check.state != "ok")  # who is not well is told what to do
    return check.state


def test_everything_works_here():
    """The real TensorFlow of this machine."""
    found = {c.name: c for c in doctor.check_machine()}
    for name in ("Python", "TensorFlow", "Keras", "devices", "XLA", "HDF5"):
        assert found[name].state == "ok", found[name]
    assert list(found)[:6] == ["Python", "TensorFlow", "Keras", "devices", "XLA", "NVML"] and len(found) == 11


def shim(
    folder, tensorflow, keras="__version__ = '3.15.1'\nclass backend: backend = staticmethod(lambda: 'tensorflow')"
):
    """A stand-in for TensorFlow and Keras at the front of the import path."""
    (folder / "tensorflow.py").write_text(tensorflow)
    (folder / "keras.py").write_text(keras)
    return {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path]), "CUDA_VISIBLE_DEVICES": ""}


@pytest.mark.parametrize(("tensorflow", "said"), [
    ("raise ModuleNotFoundError(\"No module named 'tensorflow'\")", "No module named 'tensorflow'"),
    ("raise ImportError('libstdc++.so.6: version GLIBCXX not found\\nmore')", "GLIBCXX not found"),
    ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", f"ended with -{int(signal.SIGILL)}"),
])  # fmt: skip
def test_a_broken_tensorflow_is_told_without_a_traceback(tmp_path, tensorflow, said):
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from tfperf.measure.doctor import main; sys.exit(main())"],
        capture_output=True, text=True, env={**os.environ, **shim(tmp_path, tensorflow)}, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and "Traceback" not in done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if "TensorFlow: " in line]
    assert line.startswith("missing ") and said in line and "pip install 'tensorflow" in line
    assert any(line.startswith("missing  XLA: ") for line in done.stdout.splitlines())
    assert any(line.startswith("ok       HDF5: ") for line in done.stdout.splitlines())


def test_a_tensorflow_that_hangs_is_told(tmp_path, monkeypatch):
    for name, value in shim(tmp_path, "__version__ = '2.21.0'", "import time; time.sleep(60)").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(doctor, "PROBE_SECONDS", 3)
    answers, end = doctor.probe_tensorflow()
    assert answers == {"tensorflow": {"found": "2.21.0"}} and end == "no answer within 3 s"
    assert state(doctor.check_tensorflow(answers, end)) == "ok"
    assert state(doctor.check_keras(answers), "not reached") == "missing"
    assert state(doctor.check_xla(answers, end), "no answer within 3 s") == "missing"


@pytest.mark.parametrize(("version", "want"), [
    ("3.10.14", "warning"), ("3.11.0", "ok"), ("3.13.9", "ok"), ("3.14.0rc1", "warning"),
])  # fmt: skip
def test_python(version, want):
    assert state(doctor.check_python(version), version) == want


@pytest.mark.parametrize(("version", "want"), [("2.20.0", "warning"), ("2.21.0-rc1", "ok"), ("2.22.0", "warning")])
def test_tensorflow_version(version, want):
    assert state(doctor.check_tensorflow({"tensorflow": {"found": version}}, ""), version) == want


@pytest.mark.parametrize(("answer", "want", "word"), [
    ({"found": ["3.15.1", "tensorflow"]}, "ok", "backend tensorflow"),
    ({"found": ["2.15.0", "tensorflow"]}, "warning", "pip install 'keras>=3"),
    ({"found": ["3.15.1", "jax"]}, "missing", "KERAS_BACKEND=tensorflow"),
    ({"error": "ModuleNotFoundError: No module named 'jax'"}, "missing", "No module named 'jax'"),
])  # fmt: skip
def test_keras(answer, want, word):
    assert state(doctor.check_keras({"keras": answer}), word) == want


@pytest.mark.parametrize(("answer", "want"), [
    ({"found": 285.0}, "ok"), ({"found": 284.0}, "warning"), ({"error": "UnimplementedError: no XLA"}, "missing"),
])  # fmt: skip
def test_xla(answer, want):
    check = doctor.check_xla({"xla": answer}, "")
    assert state(check) == want and (want == "ok" or check.advice.startswith("set engine.xla: false"))
    assert not (check.needed and check.state == "missing")  # a fit runs without XLA


@pytest.mark.parametrize(("available", "want"), [(5e9, "ok"), (3e9, "warning"), (None, "warning")])
def test_memory(available, want):
    assert state(doctor.check_memory(available)) == want


def test_disk(monkeypatch, tmp_path):
    usage = namedtuple("usage", "free")
    here = lambda: str(tmp_path)  # noqa: E731
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage(2e9))
    assert state(doctor.check_disk("disk", here), "2.0 GB free") == "ok"
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage(2e8))
    assert state(doctor.check_disk("disk", here), "0.2 GB free", "make room") == "warning"
    monkeypatch.setattr(os, "access", lambda folder, mode: False)
    assert state(doctor.check_disk("disk", here), "not writable") == "warning"


@pytest.mark.parametrize(("version", "want"), [("2.24.2", "ok"), (None, "missing")])
def test_profile_tab(monkeypatch, version, want):
    monkeypatch.setattr(doctor, "get_package_version", lambda name: version)
    check = doctor.check_plugin()
    assert state(check, version or "not installed", "" if version else "tfperf[profile]") == want and not check.needed


def test_no_temporary_folder_is_a_warning(monkeypatch):
    def none():
        raise FileNotFoundError("No usable temporary directory found")

    assert state(doctor.check_disk("disk", none), "No usable temporary directory") == "warning"


@pytest.mark.parametrize(("call", "module"), [
    (doctor.check_hdf5, "h5py"), (doctor.check_nvml, "pynvml"),
    (lambda: doctor.check_extra("some-thing", "more", "that"), "some_thing"),
    (lambda: doctor.check_extra("some-thing", "more", "that", "other"), "other"),
])  # fmt: skip
def test_a_missing_module_is_named(monkeypatch, call, module):
    monkeypatch.setitem(sys.modules, module, None)
    assert state(call(), module, "pip install") == "missing"


def test_a_package_that_is_there_has_its_version():
    assert state(doctor.check_extra("pytest", "test", "tests"), pytest.__version__) == "ok"


def test_main_fails_only_for_what_is_needed(monkeypatch, capsys):
    calm = (
        DoctorCheck("A", "ok", "1"),
        DoctorCheck("B", "warning", "2", "mend it"),
        DoctorCheck("C", "missing", "3", "get it", needed=False),
    )
    monkeypatch.setattr(doctor, "check_machine", lambda: list(calm))
    assert doctor.main() == 0
    assert capsys.readouterr().out.splitlines() == ["ok       A: 1", "warning  B: 2; mend it", "missing  C: 3; get it"]
    assert doctor.main(lambda: [DoctorCheck("own", "ok", "5")]) == 0 and "ok       own: 5" in capsys.readouterr().out
    monkeypatch.setattr(doctor, "check_machine", lambda: [*calm, DoctorCheck("D", "missing", "4", "get it")])
    assert doctor.main() == 1


def test_brackets_and_long_lines_stay_as_they_are():
    file = io.StringIO()
    console = Console(file=file, width=40)
    console.print(
        doctor.format_check(DoctorCheck("some", "missing", "x" * 60, "pip install 'tfperf[some]'")), soft_wrap=True
    )
    assert file.getvalue() == f"missing  some: {'x' * 60}; pip install 'tfperf[some]'\n"
