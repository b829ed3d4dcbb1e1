"""What models give becomes rows of the file, or a failure where it does not fit; nothing is rounded without a word."""

import numpy as np
import pytest

from tests.infer.programs import make_preparer, make_worker
from tfperf.errors import UserError
from tfperf.infer.commit_thread import convert_rows, describe_outputs
from tfperf.infer.dispatch_records import DispatchHooks, DispatchRule, Slot
from tfperf.infer.micro_batches import BatchRule
from tfperf.infer.output_file import OutputSpec
from tfperf.infer.pace import UnitRule
from tfperf.infer.prediction import PredictionFolder, PredictionPlan, run_prediction, verify_prediction


def test_whole_numbers_stay_whole():
    values = {"label": np.array([2**24 + 1]), "is_good": np.array([True]), "score": np.array([0.5], np.float64)}
    specs = describe_outputs(values, "float16")
    assert [one.dtype for one in specs] == ["int64", "uint8", "float16"]
    found, failures = convert_rows(specs, 0, [0], values)
    assert found["label"][0] == 2**24 + 1 and found["is_good"][0] == 1 and not failures


def test_what_is_beyond_a_type_is_a_failure_of_its_record():
    specs = [OutputSpec("a", (2,), "float16"), OutputSpec("b", (), "int64")]
    values = {"a": np.array([[1, 2], [7e4, 0], [np.inf, 3]], np.float32), "b": np.array([1, 2, 3])}
    found, failures = convert_rows(specs, 5, [10, 20, 30], values)
    assert [(one.window, one.number, one.reason) for one in failures] == [(5, 20, "raised")]
    assert failures[0].message == "output a: 7e+04 is beyond float16"
    assert np.all(np.isnan(found["a"][1])) and list(found["b"]) == [1, 0, 3] and list(values["b"]) == [1, 2, 3]
    assert found["a"][2, 0] == np.inf  # the model's own


def test_later_rows_are_as_the_first_ones():
    specs = [OutputSpec("a", (), "int64")]
    with pytest.raises(UserError, match="output a: got float32, where the first rows were int64"):
        convert_rows(specs, 0, [0], {"a": np.array([1.5], np.float32)})
    with pytest.raises(UserError, match=r"got shape \(1, 2\) for 1 records; must be \(1,\)"):
        convert_rows(specs, 0, [0], {"a": np.array([[1, 2]])})


@pytest.mark.parametrize("name", ["ids", "finished", "a/b", "", "."])
def test_names_that_the_file_cannot_have_are_refused(name):
    with pytest.raises(UserError, match=r"model: output .*output\.names gives others"):
        describe_outputs({name: np.zeros(2)}, "float32")


def run(folder, records, window, faults):
    found = PredictionFolder(folder, PredictionPlan(records, window, "out.h5", "float32", "<i8", {"n": records}))
    found.open(is_resumed=False)
    rule, hooks = DispatchRule(BatchRule(records=8), UnitRule(0.1)), DispatchHooks(lambda *_: None)
    preparer = make_preparer(records, window, faults)
    run_prediction(found, [Slot("one", make_worker())], preparer, rule, lambda _: None, lambda _: None, hooks)
    return found


def test_a_preparation_that_always_fails_ends_the_run(tmp_path):
    """Before all records are read."""
    with pytest.raises(UserError, match="preprocess: no record could be prepared: 100 records raised: ValueError: a"):
        run(tmp_path, 10**6, 50, dict.fromkeys(range(10**6), "raised"))


def test_a_few_that_fail_first_do_not(tmp_path):
    found = run(tmp_path, 400, 400, dict.fromkeys(range(150), "raised"))
    assert found.progress.is_complete and len(found.progress.failures) == 150


def test_a_line_that_was_cut_off_is_no_fault(tmp_path):
    found = run(tmp_path, 60, 20, {})
    with (tmp_path / "journal").open("a") as file:
        file.write('{"window": 2, "ma')
    verified = verify_prediction(found, lambda *_: None)
    assert verified.faults == () and verified.done == 60 and "line 4 is not whole" in verified.notes[0]
