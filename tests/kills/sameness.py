"""Whether two runs found the same, bit by bit, and whether what they left is whole."""

import json
import re

import h5py
import numpy as np

from tests.workloads.pdf.report.test_events import read

# readings of a clock, of memory, and what tells the lives of a run apart
MEASURED = {
    "seconds", "ms_per_step", "ms_per_step_of_stacks", "words_per_second", "peak_rss_bytes", "resumed_from_steps",
    "tried", "cores_tried", "cached", "run", "run_id", "part",
}  # fmt: skip
IDENTITY = {"run", "run_id"}  # attributes of results.h5
PAGE = re.compile(r"<!DOCTYPE html>.*</html>\n", re.DOTALL)
SHOWN = re.compile(r"base64,([^\"]+)\"|<h[123]>(.*?)</h[123]>")


def found(tree):
    """A summary without what is measured."""
    if isinstance(tree, dict):
        return {key: found(value) for key, value in tree.items() if key not in MEASURED}
    return [found(value) for value in tree] if isinstance(tree, list) else tree


def contents(path):
    """Every dataset and attribute of a file as bytes, the summary apart."""
    content = {}

    def see(name, node):
        if isinstance(node, h5py.Dataset) and name != "summary":
            content[name] = node.dtype, node.shape, node[()].tobytes()
        for key, value in node.attrs.items():
            if key not in IDENTITY:
                content[f"{name}@{key}"] = np.asarray(value).dtype, np.shape(value), np.asarray(value).tobytes()

    with h5py.File(path) as file:
        see("", file)
        file.visititems(see)
        summary = json.loads(file["summary"][0])
    return content, summary


def same(a, b):
    """Assert that two finished runs hold the same: results, report, history; and that nothing is left in them."""
    (content, summary), (other, other_summary) = (contents(run / "results.h5") for run in (a, b))
    assert content.keys() == other.keys()
    assert [name for name, value in content.items() if value != other[name]] == []
    assert found(summary) == found(other_summary)
    reports = [report(run) for run in (a, b)]
    assert found(reports[0]) == found(reports[1]) == found(summary)
    one, two = (SHOWN.findall((run / "report.html").read_text()) for run in (a, b))
    assert one == two and one
    for folder in (a / "events").iterdir():
        assert read(folder) == read(b / "events" / folder.name)
    assert names(a) == names(b)
    for path in (a / "vocabularies").glob("*"):
        assert path.read_bytes() == (b / "vocabularies" / path.name).read_bytes()


def names(run):
    """All that a run left, checkpoints apart, of which the older one may be of any step."""
    return {str(path.relative_to(run)) for path in run.rglob("*") if path.suffix != ".ckpt"}


def report(run):
    """report.json of a run that is done; asserts that all of it is there and whole, and that no time is negative."""
    assert all(part["done"] for part in json.loads((run / "run.json").read_text())["parts"])
    assert not list(run.rglob("*.tmp"))
    assert PAGE.fullmatch((run / "report.html").read_text())
    content = json.loads((run / "report.json").read_text())
    assert min(content["seconds"].values()) >= 0 and min(filter(None, content["ms_per_step"].values()), default=0) >= 0
    return content
