"""Checkpoints are taken up by the part of the run that wrote them alone."""

import io
import zipfile

import numpy as np
import pytest

from tfperf.errors import RunDirectoryError
from tfperf.results.state import Identity
from tfperf.train.checkpoint import Checkpoints

RUN = Identity("a" * 32, "b" * 64)
ARRAYS: dict = {"step": np.int64(7), "model/kernel": np.arange(6.0).reshape(2, 3)}


def test_what_was_saved_is_loaded(tmp_path):
    checkpoints = Checkpoints(tmp_path, RUN, "c" * 32)
    for step in (10, 20, 30):
        checkpoints.save(step, ARRAYS)
    found, warnings = checkpoints.load()
    assert not warnings and found.keys() == ARRAYS.keys() and len(list(tmp_path.iterdir())) == 2
    for name, value in ARRAYS.items():
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.parametrize(("owner", "part", "warned"), [
    (Identity("f" * 32, "b" * 64), "c" * 32, True), (Identity("a" * 32, "f" * 64), "c" * 32, False),
    (RUN, "f" * 32, False),
])  # fmt: skip
def test_what_another_run_or_part_saved_is_not(tmp_path, owner, part, warned):
    Checkpoints(tmp_path, owner, part).save(10, ARRAYS)
    found, warnings = Checkpoints(tmp_path, RUN, "c" * 32).load()
    assert not found and [w.endswith("of another run; it is not taken") for w in warnings] == [True] * warned


def test_a_folder_of_such_a_name_is_left_alone(tmp_path):
    (tmp_path / "step-000000000001.ckpt").mkdir()
    checkpoints = Checkpoints(tmp_path, RUN, "c" * 32)
    for step in (10, 20, 30):
        checkpoints.save(step, ARRAYS)
    assert checkpoints.load()[0]
    checkpoints.clear()
    assert [p.name for p in tmp_path.iterdir()] == ["step-000000000001.ckpt"]


def test_an_archive_that_inflates_is_refused_whatever_its_hash(tmp_path):
    import hashlib

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", bytes(10**6))
    digest = hashlib.sha256(buffer.getvalue()).hexdigest().encode()
    (tmp_path / "step-000000000010.ckpt").write_bytes(digest + b"\n" + buffer.getvalue())
    with pytest.raises(RunDirectoryError, match="a compressed archive"):
        Checkpoints(tmp_path, RUN, "c" * 32).load()
