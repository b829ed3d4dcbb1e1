"""Profiles read as columns; synthetic ones are built with TensorFlow's own message classes."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.trace.profiles import write
from tfperf.errors import TraceError
from tfperf.trace.planes import Lane, decode_events, find_profile_files, read_spaces

SMALL = {
    "/host:CPU": {
        "python": (1000, [("train", 0, 9_000_000, {"step_num": 7, "_r": 1}), ("call", 1_500, 2_000_500, {})]),
        "pool": (1500, [("MatMul", 500_000, 1_000_000, {"hlo_module": "mine"})]),
    },
    "/device:GPU:0": {"Stream #1": (2000, [("MatMul", 0, 3_000_000, {"tf_op": "x:MatMul", "unasked": 1})])},
}


def test_events_are_those_of_the_file(tmp_path):
    events = decode_events(read_spaces(write(tmp_path / "vm.xplane.pb", SMALL)), lambda name: name != "call")
    assert events.lanes == (
        Lane("vm", "/host:CPU", "python"), Lane("vm", "/host:CPU", "pool"), Lane("vm", "/device:GPU:0", "Stream #1")
    )  # fmt: skip
    assert [events.names[i] for i in events.name] == ["train", "call", "MatMul", "MatMul"]
    np.testing.assert_array_equal(events.lane, [0, 0, 1, 2])
    np.testing.assert_array_equal(events.begin, [1000, 1001, 2000, 2000])
    np.testing.assert_array_equal(events.end, [10_000, 3002, 3000, 5000])
    assert set(events.stats) == {"step_num", "hlo_module", "tf_op"}
    rows, values = events.stats["step_num"]
    assert rows.tolist() == [0] and values == (7,)
    assert events.stats["hlo_module"][0].tolist() == [2] and events.stats["hlo_module"][1] == ("mine",)
    assert events.stats["tf_op"][0].tolist() == [3] and events.stats["tf_op"][1] == ("x:MatMul",)
    # a host's events are so many that stats are read of those alone that need it
    assert set(decode_events(read_spaces(tmp_path), lambda name: name == "train").stats) == {"step_num", "tf_op"}


def test_files_of_several_hosts_are_one_profile_and_the_last_session_counts(tmp_path):
    session = tmp_path / "plugins" / "profile"
    write(session / "2026_01_01" / "old.xplane.pb", SMALL)
    both = [write(session / "2026_01_02" / f"{host}.xplane.pb", SMALL) for host in "ab"]
    assert find_profile_files(tmp_path) == both
    events = decode_events(read_spaces(tmp_path))
    assert len(events) == 8 and {lane.host for lane in events.lanes} == {"a", "b"}
    assert find_profile_files(both[0]) == [both[0]]


def test_an_empty_profile_has_no_events(tmp_path):
    assert len(decode_events(read_spaces(write(tmp_path / "a.xplane.pb", {})))) == 0


@pytest.mark.parametrize("name, message", [("none", "no such file"), (".", "holds no profile")])
def test_a_path_without_profile_is_refused(tmp_path, name, message):
    with pytest.raises(TraceError, match=message):
        find_profile_files(tmp_path / name)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damaged_files_give_a_clear_error_or_fewer_events(tmp_path, data):
    path = write(tmp_path / "vm.xplane.pb", SMALL)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        events = decode_events(read_spaces(path), lambda name: True)
    except TraceError as error:
        assert str(path) in str(error)
    else:
        assert len(events.begin) == len(events.name) <= 8


def test_a_profile_is_read_without_tensorflow(tmp_path):
    path = write(tmp_path / "vm.xplane.pb", SMALL)
    code = (
        f"import sys; from pathlib import Path; from tfperf.trace.planes import decode_events, read_spaces; "
        f"assert len(decode_events(read_spaces(Path({str(path)!r})))) == 4; assert 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
