"""Arrays of functions and files as samples."""

import h5py
import numpy as np
import pytest

from tfperf.errors import UserError
from tfperf.sources.samples import make_samples, read_samples

X, Y = np.arange(12.0).reshape(4, 3), np.arange(4)


def test_arrays_are_taken_as_keras_takes_them():
    found = make_samples((X, Y), "load")
    assert len(found) == 4 and found.data[0].dtype == X.dtype and found.data[1].dtype == Y.dtype
    np.testing.assert_array_equal(found.select(slice(1, 3)).data[1], [1, 2])
    nested = make_samples(({"a": X, "b": [X, Y]}, Y, None), "load")
    assert len(nested.data) == 2 and len(nested.arrays) == 4 and isinstance(nested.data[0]["b"], tuple)
    assert len(make_samples([1.0, 2.0], "load")) == 2 and len(make_samples([X, X], "load").data[0]) == 2


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ((X, Y[:3]), r"arrays of \[4, 3\] samples"), ((), "returned 0 things"), ((X, Y, Y, Y), "returned 4 things"),
        (3, "returned int"),
        ((X, None, Y), "returned None before something else"),
        (iter([1]), "returned list_iterator; must be NumPy arrays"), ((X[:0],), "at least 1"),
        (np.array([object()]), "an array of type object"),
    ],
)  # fmt: skip
def test_what_is_no_arrays_is_refused(found, said):
    with pytest.raises(UserError, match=said):
        make_samples(found, "data.build: load")


@pytest.mark.parametrize("suffix", [".npz", ".h5"])
def test_files_have_arrays_by_name(tmp_path, suffix):
    path = tmp_path / f"data{suffix}"
    if suffix == ".npz":
        np.savez(path, x=X, y=Y, w=Y)
    else:
        with h5py.File(path, "w") as file:
            file["x"], file["y"], file["w"] = X, Y, Y
    found = read_samples(path, ["x"], ["y"], "w")
    assert len(found.data) == 3 and found.data[0].shape == (4, 3)
    assert sorted(read_samples(path, ["x", "w"], ["y"], None).data[0]) == ["w", "x"]
    with pytest.raises(UserError, match="has no array z; it has: "):
        read_samples(path, ["z"], ["y"], None)
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(UserError, match="cannot be read: "):
        read_samples(path, ["x"], ["y"], None)
