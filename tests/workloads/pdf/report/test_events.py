import subprocess
import sys

import numpy as np
import pytest

from tests.make_result import make_result
from tfperf.errors import StorageError
from tfperf.report.tensorboard import FILE
from tfperf.workloads.pdf.report.bands import extend_last_values
from tfperf.workloads.pdf.report.events import write_events


def read(folder):
    """tag -> (steps, values) as TensorBoard itself reads a run."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # type: ignore[import-untyped]

    events = EventAccumulator(str(folder), size_guidance={"tensors": 0})
    events.Reload()
    series = {}
    for tag in events.Tags()["tensors"]:
        assert events.SummaryMetadata(tag).plugin_data.plugin_name == "scalars"
        found = events.Tensors(tag)
        series[tag] = ([e.step for e in found], [e.tensor_proto.float_val[0] for e in found])
    return series


def test_tensorboard_reads_the_history_at_its_true_steps(tmp_path):
    result = make_result(replicas=9, failed=2, rows=30)
    write_events(tmp_path, result)
    history, keep = result.history, result.converged
    for run, level in (("q16", 0.16), ("median", 0.5), ("q84", 0.84)):
        series = read(tmp_path / run)
        assert set(series) == {"chi2/training", "chi2/validation", "chi2/experimental", "positivity/penalty"}
        steps, values = series["chi2/validation"]
        assert steps == history.step.tolist()
        want = np.nanquantile(extend_last_values(history.validation[:, keep]), level, axis=1)
        np.testing.assert_allclose(values, want, rtol=2**-24)  # stored as float32
    steps, values = read(tmp_path / "all")["replicas/running"]
    assert values[0] == 9 and values == np.isfinite(history.training).sum(axis=1).tolist()


def test_single_replicas_keep_their_last_values(tmp_path):
    result = make_result(replicas=9, failed=2, rows=30)
    write_events(tmp_path, result)
    names = {p.name for p in tmp_path.iterdir()}
    assert len(names) == 4 + 5 and not {"replica_2", "replica_4"} & names  # those failed
    steps, values = read(tmp_path / "replica_1")["chi2/training"]
    losses = result.history.training[:, 0]
    last = np.flatnonzero(np.isfinite(losses))[-1]
    assert steps == result.history.step.tolist() and steps[last] <= result.replicas.stop_step[0] < steps[-1]
    np.testing.assert_allclose(values[: last + 1], losses[: last + 1], rtol=2**-24)
    assert set(values[last:]) == {values[last]}


def test_writing_again_replaces_the_events(tmp_path):
    for rows, replicas in ((30, 7), (10, 20)):
        write_events(tmp_path, make_result(rows=rows, replicas=replicas, failed=0))
    assert len(list(tmp_path.glob("replica_*"))) == 5
    assert [p.name for p in (tmp_path / "median").iterdir()] == [FILE]
    assert len(read(tmp_path / "median")["chi2/training"][0]) == 10


@pytest.mark.parametrize("change", [{"replicas": 1, "failed": 0}, {"replicas": 2, "failed": 1, "rows": 1}])
def test_small_fits_have_events_too(tmp_path, change):
    write_events(tmp_path, make_result(**change))
    assert read(tmp_path / "median")


def test_a_full_disk_is_a_storage_error(tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(StorageError, match="no space left"):
        write_events(tmp_path, make_result())


def test_events_need_no_tensorflow(tmp_path):
    code = (
        "import sys, pathlib\nfrom tests.make_result import make_result\n"
        "from tfperf.workloads.pdf.report.events import write_events\n"
        "write_events(pathlib.Path(sys.argv[1]), make_result())\n"
        "assert 'tensorflow' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path], check=True)
