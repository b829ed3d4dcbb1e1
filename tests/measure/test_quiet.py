"""TensorFlow's chatter, kept off a stderr that may be full or closed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tfperf.measure.quiet import LOG_LEVEL, silence_tensorflow

ROOT = Path(__file__).parents[2]
CODE = """
import os
from tfperf.measure.quiet import drop_native_logs
with drop_native_logs():
    os.write({descriptor}, b"I0000 00:00:17.1 chatter\\nto be read\\n")
print("done")
"""


@pytest.mark.parametrize(
    ("stderr", "descriptor", "heard"), [("", 2, "to be read\n"), ("2>/dev/full", 2, ""), ("2>&-", 1, "")]
)
def test_what_is_held_back_is_passed_on_where_it_can_be(stderr, descriptor, heard):
    command = ["bash", "-c", f'"$0" -c "$1" {stderr}', sys.executable, CODE.format(descriptor=descriptor)]
    settings = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=settings, timeout=60, check=False)
    assert done.returncode == 0 and done.stdout.endswith("done\n") and done.stderr == heard


@pytest.mark.parametrize(
    ("imported", "given", "want"), [(False, None, "3"), (False, "0", "0"), (True, None, None), (True, "1", "1")]
)
def test_only_a_tensorflow_to_come_is_silenced(monkeypatch, imported, given, want):
    modules = {name: module for name, module in sys.modules.items() if name != "tensorflow"}
    monkeypatch.setattr(sys, "modules", modules | ({"tensorflow": sys} if imported else {}))
    monkeypatch.delenv(LOG_LEVEL, raising=False)
    if given is not None:
        monkeypatch.setenv(LOG_LEVEL, given)
    silence_tensorflow()
    assert os.environ.get(LOG_LEVEL) == want
    monkeypatch.delenv(LOG_LEVEL, raising=False)
