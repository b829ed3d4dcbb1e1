"""A made-up libnvidia-ml.so.1 (nvml_stub.c), for a subprocess to find on LD_LIBRARY_PATH."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_suffix(".c")


def build_stub(folder: Path, *variants: str, second: str = "NVIDIA Stub B") -> dict[str, str]:
    """Environment of a process that finds two GPUs that are not there.

    variants: FAILING (it does not start), BARE (names and memory alone), COMPUTING (GPUs that cannot draw), OLD
    (another name for why clocks are low).
    """
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (cc) for the stub of libnvidia-ml")
    settings = [f"-D{one}" for one in variants] + [f'-DSECOND="{second}"']
    subprocess.run([compiler, "-shared", "-fPIC", *settings, "-o", folder / "libnvidia-ml.so.1", SOURCE], check=True)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("CUDA_")}
    return {**kept, "LD_LIBRARY_PATH": str(folder)}
