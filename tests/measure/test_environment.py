import getpass
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np

from tests.measure.nvml_stub import build_stub
from tfperf.measure import environment as env


def run(code, environment):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout)


def test_environment_is_json_and_complete():
    found = json.loads(json.dumps(env.collect_environment(), allow_nan=False))
    assert set(found) == {"versions", "platform", "cpu", "memory_bytes", "gpus", "variables"}
    versions = found["versions"]
    assert versions["numpy"] == np.__version__ and versions["python"] == sys.version.split()[0]
    assert all(versions[p] for p in ("tfperf", "tensorflow", "keras", "h5py", "hdf5"))
    assert found["cpu"]["cores"] == len(os.sched_getaffinity(0)) and found["cpu"]["model"]
    assert 1e8 < found["memory_bytes"] < 1e14


def test_names_no_person_host_or_folder(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=/home/jane/dump --xla_cpu_fast=false,~jane/x:../y 3/4")
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"worker": ["host7:1"]}}')
    monkeypatch.setenv("TF_VAR_password", "secret")
    monkeypatch.setenv("TF_TOKEN_app", "secret")
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    found = env.collect_environment()
    assert found["variables"]["XLA_FLAGS"] == "--xla_dump_to=<path> --xla_cpu_fast=false,<path>:<path> 3/4"
    kept = {"TF_ENABLE_ONEDNN_OPTS": "0", "CUDA_VISIBLE_DEVICES": "0,1", "OMP_NUM_THREADS": "2"}
    assert {k: found["variables"].get(k) for k in kept} == kept
    text = json.dumps(found)
    for private in ("secret", "host7", "jane", str(Path.cwd()), str(Path.home()) + "/", socket.gethostname()):
        assert private not in text
    if getpass.getuser() != "root":
        assert getpass.getuser() not in text


def test_does_not_import_tensorflow():
    code = "import sys, json; from tfperf.measure.environment import collect_environment; collect_environment()\n"
    assert run(code + "print(json.dumps([m for m in sys.modules if m in ('tensorflow', 'keras')]))", os.environ) == []


X86 = """processor	: {n}
model name	: A processor
cpu MHz		: {mhz}
flags		: fpu  {more}avx
apicid		: {n}
"""


def test_features_are_all_kinds_of_core_and_do_not_change(monkeypatch):
    texts = iter([
        X86.format(n=0, mhz=2000, more="") + X86.format(n=1, mhz=1500, more=""),
        X86.format(n=0, mhz=900, more=""),
        X86.format(n=0, mhz=900, more="") + X86.format(n=1, mhz=900, more="avx2 "),
        "processor\t: 0\nBogoMIPS\t: 50.0\nFeatures\t: fp asimd\nCPU part\t: 0xd0c\n",
    ])  # fmt: skip
    monkeypatch.setattr(Path, "read_text", lambda _: next(texts))
    one, other, more, arm = (env.read_cpu_features() for _ in range(4))
    assert one == other == ("flags : fpu avx", "model name : A processor") != more
    assert arm == ("CPU part : 0xd0c", "Features : fp asimd")


def test_a_missing_package_has_no_version(monkeypatch):
    monkeypatch.setattr(env, "PACKAGES", ("numpy", "no-such-package-here"))
    monkeypatch.setitem(sys.modules, "h5py", None)
    assert env.list_versions()["no-such-package-here"] is None and env.list_versions()["hdf5"] is None


def test_peak_is_that_of_the_process_and_stays_after_memory_is_freed():
    code = """
import json, numpy
from tfperf.measure.environment import measure_peak_rss_bytes
before = measure_peak_rss_bytes()
block = numpy.ones(25_000_000)
del block
print(json.dumps([before, measure_peak_rss_bytes()]))
"""
    ballast = np.ones(60_000_000)  # 480 MB here must not count there
    before, after = run(code, os.environ)
    assert before < 300e6 < ballast.nbytes
    assert 195e6 < after - before < 260e6  # the kernel counts pages in batches


def test_available_memory_is_at_most_all(monkeypatch, tmp_path):
    available, whole = env.read_available_bytes(), env.read_memory_bytes()
    assert available is not None and 0 < available <= whole
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(env, "CGROUP_LIMITS", (limit,))
    physical = env.read_memory_bytes()
    limit.write_text("max\n")
    assert env.read_memory_bytes() == physical
    limit.write_text("100000000\n")
    assert env.read_memory_bytes() == env.read_available_bytes() == 100_000_000


def test_gpus_are_named_through_nvml(tmp_path):
    code = "import json; from tfperf.measure.environment import list_gpus; print(json.dumps(list_gpus()))"
    assert run(code, build_stub(tmp_path)) == [
        {"name": "NVIDIA Stub A", "driver": "570.1", "memory_bytes": 8_000_000_000},
        {"name": "NVIDIA Stub B", "driver": "570.1", "memory_bytes": 16_000_000_000},
    ]


def test_the_doctor_sees_gpus_that_tensorflow_does_not(tmp_path):
    code = """
import json
from tfperf.measure.doctor import check_devices, check_nvml
checks = [check_devices({"devices": {"found": found}}) for found in (["CPU"], ["CPU", "A"])] + [check_nvml()]
print(json.dumps([[c.state, c.found, c.advice] for c in checks]))
"""
    hidden, seen, nvml = run(code, build_stub(tmp_path))
    assert hidden[0] == "warning" and "does not see the NVIDIA Stub A" in hidden[1] and "tfperf[gpu]" in hidden[2]
    assert seen[0] == "ok" and nvml == ["ok", "driver 570.1: NVIDIA Stub A, NVIDIA Stub B", ""]


def test_no_module_for_nvml_is_no_gpu(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert env.list_gpus() == []
