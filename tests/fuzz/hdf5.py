"""Damage to HDF5 files: by bytes, and by what h5py itself can make of them."""

from contextlib import suppress

import h5py
import numpy as np
from hypothesis import strategies as st

NO_TEXT = "no UTF-8"  # stands for such bytes
NUMBERS = (0, -0.0, 1, -1, 2, 0.5, 13, 14, 255, 1e-320, 1e-12, 1e9, 1e15, 1e16, 1e200, 1e308, -1e308, 2**31, 2**63 - 1,
           float("nan"), float("inf"), float("-inf"))  # fmt: skip
TYPES = ("f2", "f4", "f8", ">f8", "g", "i1", "i8", "u8", ">i4", "?", "c16", "S1", "S8", "S900", "O", "V4", "i4,f8",
         "enum")  # fmt: skip
SHAPES = ("flat", "turned", "more", "fewer", "empty", "scalar", "doubled", "wide", "null")
LINKS = ("soft", "itself", "external", "parent", "nowhere", "zero")
STORED = ("gzip", "lzf", "shuffle", "scaleoffset", "tiny", "whole", "plain", "unwritten", "half", "virtual", "external",
          "growing", "fill", "bomb")  # fmt: skip
NAMES = ("Q0", "layout", "flavours", "provenance", "operation", "label", "columns", "names", "kind", "title", "q0",
         "chi2", "name", "best_step", "new", "unit")  # fmt: skip
OTHER_NAMES = ("fkk", "x", "positivity", "NEW", "\u202e", "a" * 300, "\x07")
COPIES = ("NEW", "kin", "t0", "covmat", "channels", "flav", "fk_a")
ATTRIBUTES = (0, 1, -1, 1.65, 1e308, float("nan"), "", "NULL", "COM", "x", "x" * 2000, "\x1b[2J", "\u202e", NO_TEXT, [],
              [1, 2], ["x", "Q2"], ["x", "Q2", "y"], ["a"] * 14, [[1.0]], None, True, "=1+1", "<script>")  # fmt: skip


def outside_chunks(path):
    """Positions of all bytes that are no values: where a flipped bit does more than change a number."""
    values = set()

    def add(name, item):
        if isinstance(item, h5py.Dataset) and item.chunks:
            chunks = (item.id.get_chunk_info(i) for i in range(item.id.get_num_chunks()))
            for chunk in chunks:
                values.update(range(chunk.byte_offset, chunk.byte_offset + chunk.size))

    with h5py.File(path) as file:
        file.visititems(add)
        size = file.id.get_filesize()
    return [i for i in range(size) if i not in values]


def places(path):
    """Names of all groups, and of all arrays."""
    groups, arrays = ["/"], []
    with h5py.File(path) as file:
        file.visititems(lambda name, item: (groups if isinstance(item, h5py.Group) else arrays).append(name))
    return groups, arrays


def edits(path):
    """One to three things to do to a file with these arrays and groups, most of them to values."""
    groups, arrays = places(path)
    array, group, every = (st.sampled_from(one) for one in (arrays, groups, arrays + groups))
    number = st.sampled_from(NUMBERS) | st.floats(-1e3, 1e3)
    value = st.tuples(st.just("value"), array, st.integers(0, 500), number)
    one = st.one_of(
        value, value, value,
        st.tuples(st.just("fill"), array, st.just(0), number),
        st.tuples(st.just("times"), array, st.just(0), st.sampled_from((-1, 0.5, 2, 1 + 1e-9, 1e10, 1e-10))),
        st.tuples(st.just("type"), array, st.sampled_from(TYPES), st.just(0)),
        st.tuples(st.just("shape"), array, st.sampled_from(SHAPES), st.just(0)),
        st.tuples(st.just("swap"), array, array, st.just(0)),
        st.tuples(st.just("remove"), every, st.just(0), st.just(0)),
        st.tuples(st.just("rename"), every, st.sampled_from(OTHER_NAMES), st.just(0)),
        st.tuples(st.just("copy"), every, group, st.sampled_from(COPIES)),
        st.tuples(st.just("link"), every, st.sampled_from(LINKS), st.just(0)),
        st.tuples(st.just("store"), array, st.sampled_from(STORED), st.just(0)),
        st.tuples(st.just("attribute"), every, st.sampled_from(NAMES), st.sampled_from(ATTRIBUTES)),
        st.tuples(st.just("no attribute"), every, st.sampled_from(NAMES), st.just(0)),
    )  # fmt: skip
    return st.lists(one, min_size=1, max_size=3)


def edit(path, steps):
    """Do these things to a file; what h5py does not do is left."""
    if not steps:
        return
    with h5py.File(path, "r+") as file:
        for step in steps:
            with suppress(Exception):
                _edit(file, *step)


def _edit(file, kind, place, how, value):
    parent, _, name = place.strip("/").rpartition("/")
    parent = file[parent or "/"]
    match kind:
        case "value" | "fill" | "times" | "type" | "shape":
            _put(file, place, _changed(file[place][()], kind, how, value))
        case "swap":
            one, other = file[place][()], file[how][()]
            _put(file, place, other)
            _put(file, how, one)
        case "remove":
            del parent[name]
        case "rename":
            parent.move(name, how)
        case "copy":
            file.copy(file[place], file[how], value)
        case "link":
            _link(file, place, how)
        case "store":
            _store(file, place, how)
        case "attribute":
            known = {None: h5py.Empty("f8"), NO_TEXT: np.bytes_(b"\xff\xfe")}
            file[place].attrs[how] = known.get(value, value) if isinstance(value, str | None) else value
        case "no attribute":
            del file[place].attrs[how]


def _put(file, place, values, **options):
    attributes = dict(file[place].attrs)
    del file[place]
    file.create_dataset(place, data=values, **options)
    file[place].attrs.update(attributes)


def _changed(values, kind, how, number):
    if kind == "value":
        with np.errstate(all="ignore"):
            values.reshape(-1)[how % values.size] = number
    elif kind == "fill":
        values[...] = number
    elif kind == "times":
        values = values * number
    elif kind == "type":
        if how == "enum":
            return values.astype(h5py.enum_dtype({"a": 0, "b": 1}, "i4"))
        return np.zeros(values.shape, "i4,f8") if how == "i4,f8" else values.astype(how)
    else:
        return {
            "flat": lambda: values.reshape(-1), "turned": lambda: values.T, "more": lambda: values[..., None],
            "fewer": lambda: values[:-1], "empty": lambda: values[:0], "scalar": lambda: values.reshape(-1)[0],
            "doubled": lambda: np.concatenate([values, values]), "wide": lambda: np.repeat(values, 300, -1),
            "null": lambda: h5py.Empty(values.dtype),
        }[how]()  # fmt: skip
    return values


def _link(file, place, how):
    if how == "zero":
        file[f"{place}_link"] = h5py.ExternalLink("/dev/zero", "/x")
    elif how == "parent":
        file[place].parent["NEW"] = file[place].parent
    else:
        target = h5py.SoftLink({"soft": f"/{place}_moved", "itself": f"/{place}"}.get(how, "/nowhere"))
        file.move(place, f"{place}_moved")
        file[place] = h5py.ExternalLink("other.h5", "/x") if how == "external" else target


def _store(file, place, how):
    values, attributes = file[place][()], dict(file[place].attrs)
    options: dict[str, dict] = {
        "gzip": {"compression": "gzip"}, "lzf": {"compression": "lzf"}, "shuffle": {"shuffle": True},
        "scaleoffset": {"scaleoffset": 3}, "tiny": {"chunks": (1,) * values.ndim}, "whole": {"chunks": values.shape},
        "growing": {"maxshape": (None,) * values.ndim}, "fill": {"fillvalue": 7},
    }  # fmt: skip
    if how in options or how == "plain":
        return _put(file, place, values, **options.get(how, {}))
    del file[place]
    match how:
        case "virtual":
            layout = h5py.VirtualLayout(values.shape, values.dtype)
            layout[...] = h5py.VirtualSource("other.h5", "x", values.shape)
            file.create_virtual_dataset(place, layout)
        case "external":
            file.create_dataset(place, values.shape, values.dtype, external=[("/dev/zero", 0, values.nbytes)])
        case "bomb":
            shape = (*values.shape[:-1], max(1, 10**9 // max(1, values.size // values.shape[-1])))
            file.create_dataset(place, shape, values.dtype, chunks=True, compression="gzip", fillvalue=1)
        case "unwritten":
            file.create_dataset(place, values.shape, values.dtype)
        case "half":
            file.create_dataset(place, values.shape, values.dtype, chunks=(1,) * values.ndim)[:1] = values[:1]
    file[place].attrs.update(attributes)
    return None
