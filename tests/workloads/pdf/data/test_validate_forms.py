"""Every mutation of the form of every array of a good pack is refused, with dataset and field named."""

import h5py
import numpy as np
import pytest

from tests.workloads.pdf.data.packs import faults, groups, replace

OPTIONAL = {"t0", "covmat"}


def paths_of_arrays():
    """set/field of every array of the good pack."""
    with h5py.File.in_memory() as file:
        for group in groups():
            for name, values in group.arrays.items():
                file[f"{group.name}/{name}"] = values
        found = {"x": np.zeros(5)}
        file.visititems(lambda path, item: found.update({path: item[()]} if isinstance(item, h5py.Dataset) else {}))
        return found


ARRAYS = paths_of_arrays()


def names(lines, place):
    """Whether a fault names the set and the field."""
    group, _, field = place.rpartition("/")
    told = [line.split(": ", 1)[1] for line in lines]
    return any((line.startswith(f"{group}/") or not group) and field in line for line in told)


def remove(file, place, values):
    if place.rpartition("/")[2] in OPTIONAL or place == "positivity/TOY_POS/kin":
        raise StillGoodError
    del file[place]


def make_group(file, place, values):
    del file[place]
    file.create_group(place)


def change_type(file, place, values):
    if not values.size:
        raise StillGoodError
    replace(file, place, np.ones(values.shape, np.int8 if values.dtype.kind in "fS" else float))


def make_nan(file, place, values):
    if values.dtype.kind != "f" or not values.size:
        raise StillGoodError
    values.flat[values.size // 2] = np.nan
    replace(file, place, values)


def leave_unwritten(file, place, values):
    if not values.size:
        raise StillGoodError
    del file[place]
    file.create_dataset(place, values.shape, values.dtype)


def link_to(target):
    def change(file, place, values):
        del file[place]
        file[place] = target

    return change


def store_elsewhere(file, place, values):
    if values.dtype.kind not in "fi" or not values.size:
        raise StillGoodError
    del file[place]
    file.create_dataset(place, values.shape, values.dtype, external=[("/etc/hostname", 0, values.nbytes)])


def shorten(axis):
    def change(file, place, values):
        alone = (place, axis) == ("positivity/TOY_POS_PP/fk", 0)  # nothing else there has points to disagree with
        if axis >= values.ndim or values.shape[axis] < 2 or alone:
            raise StillGoodError
        replace(file, place, np.delete(values, -1, axis))

    return change


class StillGoodError(Exception):
    """The mutation would leave a good pack."""


MUTATIONS = {
    "missing": remove,
    "extra dimension": lambda file, place, values: replace(file, place, values[None]),
    "group": make_group,
    "type": change_type,
    "not finite": make_nan,
    "never written": leave_unwritten,
    "soft link": link_to(h5py.SoftLink("/TOY_F2/fk")),
    "external link": link_to(h5py.ExternalLink("other.h5", "/fk")),
    "external storage": store_elsewhere,
    **{f"shorter axis {axis}": shorten(axis) for axis in range(4)},
}


@pytest.mark.parametrize("how", MUTATIONS)
@pytest.mark.parametrize("place", ARRAYS)
def test_every_spoiled_array_is_named(good, place, how):
    with h5py.File(good, "r+") as file:
        try:
            MUTATIONS[how](file, place, file[place][()])
        except StillGoodError:
            return
    lines = faults(good)
    assert all(line.startswith(f"{good}: ") for line in lines)
    if (place, how) == ("positivity/TOY_POS/fk", "shorter axis 0"):
        place = "positivity/TOY_POS/kin"  # one against one: the table is believed
    assert names(lines, place), lines
