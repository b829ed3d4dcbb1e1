"""Files that anybody may have put there."""

import os

import pytest

from tfperf.errors import RunDirectoryError
from tfperf.results.reading import open_regular, read_bytes, read_json, read_text


def test_a_small_file_takes_little_memory_whatever_the_limit(tmp_path):
    (tmp_path / "file").write_bytes(b"small")
    assert read_bytes(tmp_path / "file", 2**50) == b"small"


def test_text_that_is_no_text_is_damage(tmp_path):
    (tmp_path / "file").write_bytes(b"a\xff")
    with pytest.raises(RunDirectoryError, match=r"damaged: it is no text in UTF-8 \(byte 1\)"):
        read_text(tmp_path / "file")


@pytest.mark.parametrize("text", ["", "{", "[" * 10**6, "9" * 5000])
def test_json_that_is_none_is_damage(tmp_path, text):
    (tmp_path / "file").write_text(text)
    with pytest.raises(RunDirectoryError, match="damaged"):
        read_json(tmp_path / "file")


def test_a_link_is_followed_where_that_is_allowed(tmp_path):
    (tmp_path / "file").write_bytes(b"there")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with open_regular(tmp_path / "link") as file:
        assert file.read() == b"there"
    with pytest.raises(ValueError, match="it is a symbolic link"), open_regular(tmp_path / "link", links=False):
        pass


def test_a_file_of_another_user_is_not_read_where_it_must_be_ones_own(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(ValueError, match="belongs to another user"):
        read_bytes(tmp_path / "file", 10, own=True)
