"""Some records of many."""

import h5py
import numpy as np

from tfperf.infer.sampled_records import SampledRecords, draw_numbers
from tfperf.sources.records.opening import open_records


def test_they_are_those_of_their_numbers(tmp_path):
    (tmp_path / "a.txt").write_text("".join(f"line {number}\n" for number in range(1000)))
    numbers = draw_numbers(1000, 90, seed=1, replicate=0)
    assert len(numbers) == len({*numbers}) == 90 and np.all(np.diff(numbers) > 0)
    assert not np.array_equal(numbers, draw_numbers(1000, 90, seed=1, replicate=1))
    assert np.array_equal(draw_numbers(5, 90, seed=1, replicate=1), np.arange(5))
    some = SampledRecords(open_records("lines", [tmp_path / "a.txt"]), numbers)
    columns, ids = some.read(10, 70)
    assert some.records == 90 and list(ids) == list(numbers[10:70])
    assert columns["text"] == [f"line {number}" for number in numbers[10:70]]
    np.save(tmp_path / "a.npy", np.arange(2000.0).reshape(1000, 2))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        values = file.create_dataset("x", (1000,), h5py.vlen_dtype(np.int32))
        for number in range(1000):
            values[number] = np.arange(number % 5)
    columns, _ = SampledRecords(open_records("hdf5", [tmp_path / "a.h5"]), numbers).read(0, 90)
    assert [len(one) for one in columns["x"]] == [number % 5 for number in numbers]
    columns, _ = SampledRecords(open_records("npy", [tmp_path / "a.npy"]), numbers).read(0, 90)
    np.testing.assert_array_equal(columns["values"], np.arange(2000.0).reshape(1000, 2)[numbers])
