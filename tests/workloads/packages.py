"""Distributions with workloads as pip installs them, and `tfperf` beside them."""

import os
import subprocess
import sys
from pathlib import Path

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
