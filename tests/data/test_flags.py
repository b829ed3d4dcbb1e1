"""XLA's flags: those of a user stay, and rule out a cache of ours where they name one."""

import os

import pytest

from tfperf.data.programs import VARIABLE, get_user_flags, set_flags


@pytest.mark.parametrize(("given", "want"), [
    (None, ""), ("", ""), (" --tf_xla_auto_jit=2 ", "--tf_xla_auto_jit=2"), ("/a/file/of/flags", None),
    ("--tf_xla_persistent_cache_directory=/mine", None), ("--a=1 --tf_xla_persistent_cache_directory=", None),
])  # fmt: skip
def test_users_flags_rule_out_ours_where_they_name_a_cache(monkeypatch, given, want):
    monkeypatch.delenv(VARIABLE, raising=False)
    if given is not None:
        monkeypatch.setenv(VARIABLE, given)
    assert get_user_flags() == want


@pytest.mark.parametrize("given", [None, "", "--tf_xla_auto_jit=2"])
def test_users_flags_stay_as_they_are(monkeypatch, given):
    monkeypatch.delenv(VARIABLE, raising=False)
    if given is not None:
        monkeypatch.setenv(VARIABLE, given)
    with set_flags("ram://here"):
        inside = os.environ[VARIABLE].split()
    assert os.environ.get(VARIABLE) == given
    assert inside[: len(inside) - 2] == (given or "").split()
    assert inside[-2] == "--tf_xla_persistent_cache_directory=ram://here"
