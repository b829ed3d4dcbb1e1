"""What a static estimate says in the terminal and on a page."""

from typing import Any

import pytest
from rich.console import Console

from tfperf.report.static_memory import (
    ERRORS,
    describe_error,
    list_static_lines,
    make_static_tables,
    render_holders,
)

FOUND: dict[str, Any] = {
    "kind": "dense", "compiled": False, "reason": "", "largest": 900, "shown": 900, "per_sample": 2.5e6,
    "points": [{"batch": 900, "peak": 2_300_000_000, "fixed": 50_000_000, "reason": ""}],
    "buffers": [
        {"size": 7_000_000, "operation": "net/<a>/MatMul", "layer": "net/<a>", "shape": [900, 8], "kind": "activation"}
    ],
    "layers": [{"layer": "net/<a>", "kind": "activation", "size": 7_000_000, "count": 1, "shape": [900, 8]}],
    "savings": [
        {"name": "recompute", "what": "again", "peak": 1_300_000_000, "saved": 1_000_000_000, "reason": ""},
        {"name": "rows", "what": "rows alone", "peak": None, "saved": None, "reason": "it has none"},
    ],
}  # fmt: skip


def test_the_terminal_has_the_largest_batch_who_holds_it_and_what_would_shrink_it():
    report = {
        "budget": 2_500_000_000,
        "margin": 0.05,
        "limit": 2_375_000_000,
        "device": "auto",
        "modes": {"train": FOUND},
    }
    console = Console(width=160)
    with console.capture() as captured:
        console.print(make_static_tables(report))
    text = captured.get()
    for part in ("no step was run", "each sample adds 2.5 MB", "batch 900", "net/<a>", "900 x 8", "1.00 GB"):
        assert part in text
    assert "none was found" in "\n".join(list_static_lines("train", {**FOUND, "largest": None}, 10, "auto"))
    assert "rows alone: n/a: it has none" in text


def test_the_page_escapes_names_and_a_failed_estimate_says_why():
    page = render_holders(FOUND)
    assert "net/&lt;a&gt;" in page and "net/<a>" not in page and "1.00 GB" in page
    assert "n/a: it was too long" in render_holders({"reason": "it was too long"})


def test_the_error_is_that_of_the_kind_of_model_and_unmeasured_on_gpus():
    assert "1.2%" in describe_error(FOUND, "auto") and "GPUs the error has not" in describe_error(FOUND, "auto")
    assert "has not been measured" in describe_error(FOUND, "gpu")
    assert "XLA's own" in describe_error({**FOUND, "compiled": True}, "auto")
    assert "has not been measured" in describe_error({**FOUND, "kind": None}, "auto")


@pytest.mark.parametrize("limit, said", [(10, "not even one sample"), (None, "")])
def test_no_batch_within_the_budget_is_said(limit, said):
    one = {**FOUND, "points": [{**FOUND["points"][0], "batch": 1}], "largest": None}
    text = "\n".join(list_static_lines("train", one, limit, "auto"))
    assert said in text and ("within" in text.split("estimates")[0]) == (limit is not None)


def test_the_largest_that_was_tried_is_not_called_the_largest_that_fits():
    found = {**FOUND, "largest": 2**24, "is_bound": True}
    (line,) = [one for one in list_static_lines("train", found, 10**10, "auto") if "the largest" in one]
    assert (
        line
        == "train: the largest within 10.00 GB: at least batch 16777216, above which none was tried, by the estimate"
    )
    assert "at least" not in "\n".join(list_static_lines("train", FOUND, 10**12, "auto"))


def test_what_the_batch_counts_has_the_words_of_its_workload():
    report = {"budget": 2**31, "margin": 0.05, "limit": 2**30, "device": "auto", "modes": {"train": FOUND},
              "unit": ("pixel", "pixels")}  # fmt: skip
    console = Console(width=160)
    with console.capture() as captured:
        console.print(make_static_tables(report))
    text = captured.get()
    for part in ("before the first batch: 50", "each pixel adds 2.5 MB", "900 pixels: 2.3", "the peak of 900 pixels"):
        assert part in text
    assert "sample" not in text and "peak of 900 pixels" in render_holders(FOUND, ("pixel", "pixels"))


@pytest.mark.parametrize("kind", ["replicas", "encoder-decoder", "recurrent"])
def test_kinds_with_an_error_of_their_own(kind):
    assert f"{ERRORS[kind][0]:.1%}" in describe_error({**FOUND, "kind": kind}, "auto")


def test_an_unknown_size_is_not_a_number():
    (line,) = list_static_lines("train", {**FOUND, "reason": "a size is not known"}, None, "auto")
    assert line == "train: n/a: a size is not known"
