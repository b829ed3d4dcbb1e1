"""Trials of a memory study on the processor with a GPU's allocator, each in a process of its own."""

import tempfile

from tfperf.runcard.dump import to_json_tree
from tfperf.study.child import run_subprocess
from tfperf.study.memory import COMMAND
from tfperf.workloads.cards import load_checked_card

MIB = 2**20
PAIR = 1e-4  # share that lets a process take one batch after the first and, where that needs more, no third


def measure_card(path, batch, limit=512 * MIB, share=None, mode="train", overrides=(), timeout=300):
    """The record of a trial, with its stages by name."""
    tree = to_json_tree(load_checked_card(path, overrides))
    with tempfile.TemporaryDirectory() as folder:
        request = {"card": tree, "mode": mode, "device": "cpu-arena", "limit": limit, "batch": batch, "share": share,
                   "more": 0, "folder": f"{folder}/trial"}  # fmt: skip
        record = run_subprocess(COMMAND, request, lambda: False, timeout)
    assert record is not None and "error" not in record, record
    return record | {"stages": {one["name"]: one for one in record["stages"]}}
