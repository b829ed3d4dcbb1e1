"""Entries of the cache: the same bits, made once, and never trusted when damaged."""

import os
from dataclasses import dataclass, replace

import numpy as np
import pytest

from tfperf.data import cache as module
from tfperf.data.cache import Cache, digest
from tfperf.data.records import flatten, restore
from tfperf.workloads.pdf.operators.folding import FoldedPoints
from tfperf.workloads.pdf.operators.woodbury import Block, Whitening


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(module.VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache" / "operators"


def record(seed=0, size=4):
    rng = np.random.default_rng(seed)
    blocks = (Block(slice(0, size), rng.standard_normal((3, size)).T), Block(slice(size, size), np.zeros((0, 2))))
    rest = Whitening(rng.standard_normal(size), blocks)
    arrays = (rng.standard_normal((2, 3, 3)), rng.standard_normal((2, 3)), np.full((2, 3), np.nan), np.ones(2))
    return FoldedPoints(*arrays, rest, (1, 0))


class Maker:
    """Counts how often it is asked."""

    def __init__(self, value):
        self.value, self.calls = value, 0

    def __call__(self):
        self.calls += 1
        return self.value


def same(got, want):
    assert type(got) is type(want) and digest(got) == digest(want)


def test_record_made_once_is_read_back_to_the_same_bits_and_layout(folder):
    make = Maker(record())
    first, second = (Cache(True).get("folded", "key", make) for _ in range(2))
    assert make.calls == 1
    same(first, make.value)
    same(second, make.value)
    assert first.rest.blocks[0].u.flags.c_contiguous and second.rest.blocks[0].u.flags.c_contiguous
    assert second.rest.blocks[0].rows == slice(0, 4) and second.coupled == (1, 0)


def test_other_keys_and_kinds_are_other_entries(folder):
    make = Maker(record())
    for kind, key in (("a", "x"), ("a", "y"), ("b", "x")):
        Cache(True).get(kind, key, make)
    assert make.calls == 3 and len(list(folder.iterdir())) == 3


@pytest.mark.parametrize(("mode", "calls", "files"), [(True, 1, 1), ("renew", 2, 1), (False, 2, 0)])
def test_what_each_word_of_the_card_does(folder, mode, calls, files):
    make = Maker(record())
    for _ in range(2):
        same(Cache(mode).get("a", "key", make), make.value)
    assert make.calls == calls and len(list(folder.glob("*"))) == files


def test_what_is_made_from_unknown_things_is_not_kept(folder):
    Cache(True).get("a", None, Maker(record()))
    assert not folder.exists()


@pytest.mark.parametrize("damage", [
    lambda b: b"", lambda b: b[: len(b) // 2], lambda b: b"\0" * len(b),
    lambda b: b[:700] + bytes([b[700] ^ 1]) + b[701:],
])  # fmt: skip
def test_damaged_entry_is_made_again(folder, damage):
    make = Maker(record(size=200))
    Cache(True).get("a", "key", make)
    (path,) = folder.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    for calls in (2, 2):
        same(Cache(True).get("a", "key", make), make.value)
        assert make.calls == calls


def test_folder_that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(module.VARIABLE, str(tmp_path / "file"))
    same(Cache(True).get("a", "key", Maker(record())), record())


def test_write_that_breaks_off_leaves_nothing(folder, monkeypatch):
    def fail(file, **arrays):
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", fail)
    same(Cache(True).get("a", "key", Maker(record())), record())
    assert list(folder.iterdir()) == []


def test_least_recently_used_entries_go_first(folder):
    values = [Maker(record(i, 500)) for i in range(3)]
    Cache(True).get("a", "0", values[0])
    small = Cache(True, limit=int(2.5 * next(folder.iterdir()).stat().st_size))
    small.get("a", "1", values[1])
    for age, path in enumerate(sorted(folder.iterdir(), key=lambda p: p.stat().st_mtime_ns)):
        os.utime(path, (1000 + age, 1000 + age))
    small.get("a", "0", values[0])  # used again
    small.get("a", "2", values[2])
    assert [v.calls for v in values] == [1, 1, 1]
    for i in (0, 2, 1):
        small.get("a", str(i), values[i])
    assert [v.calls for v in values] == [1, 2, 1]


def test_entry_above_the_limit_is_not_kept(folder):
    Cache(True, limit=100).get("a", "key", Maker(record()))
    assert not list(folder.glob("*"))


def test_other_program_makes_its_own_entries(folder, monkeypatch):
    make = Maker(record())
    Cache(True).get("a", "key", make)
    monkeypatch.setattr(module, "digest_code", lambda *_: "other")
    Cache(True).get("a", "key", make)
    assert make.calls == 2


def test_digest_tells_values_apart():
    a, block = np.arange(6.0), Block(slice(0, 2), np.zeros((2, 1)))
    different = [
        a, a.reshape(2, 3), a.astype(np.float32), a + 1e-16 * 8, list(a), ("ab", "c"), ("a", "bc"), "abc", b"abc", None,
        ((1, 2), 3), (1, (2, 3)), block, replace(block, u=np.ones((2, 1))), replace(block, rows=slice(0, 3)),
    ]  # fmt: skip
    assert len({digest(v) for v in different}) == len(different)
    # the repr of a large array leaves most of it out
    large, changed = np.zeros(5000), np.zeros(5000)
    changed[2500] = 1
    assert digest((large, None)) != digest((changed, None))
    assert digest(np.asfortranarray(a.reshape(2, 3))) == digest(a.reshape(2, 3))


def test_nothing_but_records_of_this_package_is_restored():
    @dataclass
    class Foreign:
        x: int

    with pytest.raises(ValueError, match="not of this package"):
        restore({"record": "subprocess:Popen", "fields": {"args": "true"}}, [])
    with pytest.raises(ValueError, match="no record"):
        restore({"record": "tfperf.cli:main", "fields": {}}, [])
    with pytest.raises(TypeError):
        flatten(object(), [])
    tree = flatten({"a": (1, 2.5, None), "b": [np.float64(0.1), slice(1, None)]}, [])
    assert restore(tree, []) == {"a": (1, 2.5, None), "b": [0.1, slice(1, None)]}


def entry(folder, make, kind="a"):
    """The file of a new entry."""
    Cache(True).get(kind, "key", make)
    return next(folder.glob(f"{kind}-*.npz"))


def test_no_flipped_bit_is_an_error_or_another_number(folder):
    make = Maker(record())
    path = entry(folder, make)
    content = path.read_bytes()
    # each byte once: headers of the archive and of its arrays are no less damaged than numbers
    for position in range(0, len(content), 7):
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        before = make.calls
        same(Cache(True).get("a", "key", make), make.value)
        assert make.calls == before + 1 and path.read_bytes() != bytes(damaged), position


def test_an_entry_of_another_name_is_not_read(folder):
    make, other = Maker(record()), Maker({"another": "kind"})
    path, planted = entry(folder, make), entry(folder, other, "b")
    path.write_bytes(planted.read_bytes())
    same(Cache(True).get("a", "key", make), make.value)
    assert make.calls == 2


def deep(path):
    """An entry that is whole but for a tree nested far beyond what Python's stack takes."""
    with open(path, "w+b") as file:
        file.write(b" " * module.DIGEST_LINE + f"{path.stem}\n".encode())
        np.savez(file, tree=np.frombuffer(b'{"tuple": [' * 100_000, np.uint8))
        line = module._make_digest_line(file)
        file.seek(0)
        file.write(line)


def sparse(path):
    os.truncate(path, 10**11)


def link(path):
    path.rename(path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))


PLANTED = {
    "pipe": lambda path: (path.unlink(), os.mkfifo(path)),  # type: ignore[func-returns-value]
    "device": lambda path: (path.unlink(), path.symlink_to("/dev/zero")),
    "loop": lambda path: (path.unlink(), path.symlink_to(path)),
    "link": link,
    "100 GB": sparse,
    "deep tree": deep,
    "unreadable": lambda path: (path.unlink(), path.symlink_to("/nowhere/at/all")),
}


@pytest.mark.parametrize("what", PLANTED)
def test_what_is_no_file_of_the_cache_is_made_again(folder, what):
    make = Maker(record())
    path = entry(folder, make)
    PLANTED[what](path)
    for _ in range(2):
        same(Cache(True).get("a", "key", make), make.value)
        assert make.calls == 2 and path.is_file() and not path.is_symlink()


def test_a_folder_in_the_place_of_an_entry_is_no_error(folder):
    make = Maker(record())
    path = entry(folder, make)
    path.unlink()
    path.mkdir()
    (path / "kept").write_text("")
    same(Cache(True, limit=10_000).get("a", "key", make), make.value)
    assert (path / "kept").exists()


def test_entries_of_other_users_are_not_read(folder, monkeypatch):
    make = Maker(record())
    entry(folder, make)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    same(Cache(True).get("a", "key", make), make.value)
    assert make.calls == 2


def test_folders_are_made_for_this_user_alone(folder):
    entry(folder, Maker(record()))
    assert [path.stat().st_mode & 0o777 for path in (folder, folder.parent)] == [0o700, 0o700]
