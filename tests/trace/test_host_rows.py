"""Rows of what the host did, in profiles made by hand."""

from typing import Any

import numpy as np

from tests.trace.profiles import us, write
from tfperf.trace.attribution import read_attribution
from tfperf.trace.host_rows import PIPELINE, TRAINING
from tfperf.trace.notes import parse_notes

MARK, CALL, TRACED = {"step_num": 0}, {"tf_function_call": "notTraced-nonXla"}, {"tf_function_call": "traced-nonXla"}


def read_rows(tmp_path, calls=4, **lines):
    """Rows by title: (name, begin, end) of each event, us since the first step, of calls with an operation each."""
    python: list[Any] = [("train", 100 * i, 90, MARK) for i in range(calls)]
    main = [("a/A:MatMul", 100 * i, 10) for i in range(calls)]
    lines = {"python": python, "m": main} | {name: [*(python if name == "python" else []), *more]
                                             for name, more in lines.items()}  # fmt: skip
    path = write(tmp_path / "vm.xplane.pb", {"/host:CPU": {name: us(*events) for name, events in lines.items()}})
    found = read_attribution(path, parse_notes({"own": True, "optimizers": []}))
    zero = int(found.timeline.steps.begin[0])
    return {
        (row.group, row.title): [
            (row.names[n], (b - zero) / 1e3, (e - zero) / 1e3)
            for n, b, e in zip(row.name.tolist(), row.begin.tolist(), row.end.tolist(), strict=True)
        ]
        for row in found.timeline.host
    }


def test_what_the_program_says_has_a_row_each(tmp_path):
    said = [
        ("tfperf.callback:A.on_train_batch_end", 20, 5), ("tfperf.callback:B.on_epoch_end", 30, 5),
        ("tfperf.validation", 40, 5), ("tfperf.garbage:generation 2", 50, 5), ("tfperf.epoch", 395, 50),
        ("EagerLocalExecute: SaveV2", 60, 5), ("Iterator::Prefetch", 70, 5), ("EagerPyFunc:EagerPyFunc", 80, 5),
    ]  # fmt: skip
    rows = read_rows(tmp_path, python=said)
    assert rows[TRAINING, "callbacks"] == [("A.on_train_batch_end", 20, 25), ("B.on_epoch_end", 30, 35)]
    assert rows[TRAINING, "validation"] == [("validation", 40, 45)]
    assert rows[TRAINING, "garbage collection"] == [("generation 2", 50, 55)]
    assert rows[TRAINING, "checkpoints"] == [("EagerLocalExecute: SaveV2", 60, 65)]
    assert rows[TRAINING, "operations that Python starts"] == [("SaveV2", 60, 65)]
    assert rows[TRAINING, "waits for input"] == [("Iterator::Prefetch", 70, 75)]
    assert rows[TRAINING, "Python functions in steps"] == [("EagerPyFunc:EagerPyFunc", 80, 85)]
    assert (TRAINING, "ends of epochs") not in rows  # it lies behind the last call


def test_a_look_at_the_thread_stands_for_the_time_to_the_next(tmp_path):
    looks = [
        (f"tfperf.at:{line}", at, 1) for line, at in (("a.py:1", 10), ("a.py:1", 40), ("b.py:2", 70), ("a.py:1", 90))
    ]
    rows = read_rows(tmp_path, sampler=looks)
    # the last stands for as long as most: the median of 30, 30 and 20 us
    assert rows[TRAINING, "Python lines"] == [("a.py:1", 10, 70), ("b.py:2", 70, 90), ("a.py:1", 90, 120)]


def test_calls_say_which_of_them_traced_and_what_was_compiled(tmp_path):
    python = [
        ("step", 5, 60, TRACED), ("inner", 8, 10, CALL), ("tf.function-graph_building", 10, 20),
        ("step", 105, 30, CALL), ("CpuCompiler::RunBackend", 40, 10, {"name": "a_inference_step_7"}),
        ("HLO passes", 140, 5),
    ]  # fmt: skip
    rows = read_rows(tmp_path, python=python)
    assert rows[TRAINING, "functions called"] == [("step (traced)", 5, 65), ("step", 105, 135)]
    assert rows[TRAINING, "traced and compiled"] == [
        ("trace step", 10, 30), ("compile step", 40, 50), ("HLO passes", 140, 145),
    ]  # fmt: skip


def test_stages_have_what_they_do_themselves_on_whatever_thread(tmp_path):
    threads = {
        "tf_data_a": [("Iterator::Root::BatchV2[0]", 10, 30), ("Iterator::Root::BatchV2[0]::Map", 20, 10)],
        "tf_data_b": [("Iterator::Root::BatchV2[1]", 35, 10), ("ExecutorState::Process", 50, 5)],
    }
    rows = read_rows(tmp_path, **threads)
    assert rows[PIPELINE, "BatchV2"] == [("BatchV2", 10, 20), ("BatchV2", 30, 40), ("BatchV2", 40, 45)]
    assert rows[PIPELINE, "Map"] == [("BatchV2::Map", 20, 30)]
    assert rows[PIPELINE, "functions of stages"] == [("a function of a stage runs", 50, 55)]


def test_events_of_a_row_are_in_order_and_overlap_nowhere(tmp_path):
    said = [("tfperf.callback:A.x", 20, 40), ("tfperf.callback:B.x", 30, 10), ("tfperf.callback:C.x", 60, 10)]
    (events,) = [row for (_, title), row in read_rows(tmp_path, python=said).items() if title == "callbacks"]
    assert events == [("A.x", 20, 60), ("C.x", 60, 70)]


def test_without_anything_of_the_host_there_are_no_rows(tmp_path):
    assert np.array(list(read_rows(tmp_path))).tolist() == []
