"""Distributions with workloads as pip installs them, and `tfperf` beside them."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from tfperf.cli import main
from tfperf.workloads import registry

ROOT = Path(__file__).parents[2]


def install(site, name, points, **modules):
    """What pip makes of a distribution in the folder `site`: modules by their text, and what it registers."""
    for module, text in modules.items():
        (site / f"{module}.py").write_text(text)
    about = site / f"{name.replace('-', '_')}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = "".join(f"{point} = {value}\n" for point, value in points.items())
    (about / "entry_points.txt").write_text(f"[tfperf.workloads]\n{lines}")


def begin(site, folder, *arguments):
    """`tfperf` in a folder, as a process that may import what is in `site`."""
    environment = os.environ | {"PYTHONPATH": f"{site}:{ROOT}", "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-m", "tfperf", *map(str, arguments)]
    out, err = subprocess.PIPE, subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=environment, text=True, stdout=out, stderr=err)


def run(site, folder, *arguments, code=0):
    """What it says, once it has ended with that code."""
    process = begin(site, folder, *arguments)
    output, errors = process.communicate(timeout=200)
    assert process.returncode == code, errors
    return output + errors


@contextmanager
def offered(site):
    """This process, and those that it starts, as ones that may import what is in `site`; nothing of it stays."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{site}:{ROOT}")
        patch.syspath_prepend(site)
        _forget(site)
        try:
            yield
        finally:
            _forget(site)
    registry._list_entry_points.cache_clear()


def _forget(site):
    """What this process knows of packages, and what it imported from there."""
    registry._list_entry_points.cache_clear()
    registry._get.cache_clear()
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "") or "").startswith(str(site)):
            del sys.modules[name]


def call(site, folder, *arguments, code=0):
    """As `run`, in this process."""
    with offered(site), pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        done = CliRunner().invoke(main, list(map(str, arguments)))
    assert done.exit_code == code, done.output
    return done.output
