"""What report.html of an ensemble shows, and what README and docs/ensembles.md say to run."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfperf.workloads.keras.replicas import bands_page, losses_page
from tfperf.workloads.keras.replicas.calibration import HeldClasses, HeldNumbers, compare_classes, compare_numbers
from tfperf.workloads.keras.replicas.outcome import EnsembleOutcome, ReplicaTable

ROOT = Path(__file__).parents[4]
RNG = np.random.default_rng(8)


def make_outcome(losses, broken=()):
    """Replicas 1 to R whose best of two epochs is the second."""
    ids = np.arange(1, len(losses) + 1)
    status = tuple("quarantined" if i in broken else "stopped" for i in ids)
    table = ReplicaTable(ids, ids, 0 * ids, 0 * ids + 2, 0 * ids + 2, status)
    return EnsembleOutcome("", table, {}, {"val_loss": np.array([np.add(losses, 1), losses])}, b"", {})


def find_numbers(found, targets):
    values = compare_numbers(found, targets).values
    assert isinstance(values, HeldNumbers)
    return values


def test_outliers_are_those_beyond_tukeys_fences():
    # quartiles 2 and 6: the fences are at -4 and 12
    values = np.array([0.0, 2, 2, 4, 4, 6, 6, 12, 12.1, -4.1])
    low, high = np.percentile(values, [25, 75])
    assert (low, high) == (2, 6)
    assert np.flatnonzero(losses_page.find_outliers(values)).tolist() == [8, 9]
    assert not losses_page.find_outliers(np.array([1.0, 1, 1, 1, 1, 1, 50])).any()  # too few to say so


def test_outliers_are_named_and_replicas_that_broke_are_left_out():
    losses = [1.0, 1.1, 1.2, 1.0, 1.1, 9.0, 1.2, 1.0, 1.1, 500.0]
    page = losses_page.render_losses(make_outcome(losses, broken=[10]), "val_loss")
    assert "<td>6</td><td>9</td><td>2</td>" in page and "500" not in page and "<td>1</td>" not in page
    nothing = losses_page.render_losses(make_outcome([np.nan, np.inf], broken=[1, 2]), "val_loss")
    assert "all replicas broke" in nothing
    for some, said in (([1.0, 90.0], "none is called an outlier"), (range(20), "No replica is an outlier")):
        values, ids = np.array(some, float), np.arange(len(some))
        assert said in losses_page.render_outliers(ids, values, ids, "val_loss")


def test_bars_and_bands_are_where_the_quantiles_are():
    found, targets = RNG.normal(size=(9, 12, 1)), RNG.normal(size=(12, 1))
    axes: Any = bands_page.draw_bands(find_numbers(found, targets)).axes
    left, right = axes
    order = np.argsort(found.mean(axis=0)[:, 0])
    means, dots = right.lines
    np.testing.assert_allclose(means.get_ydata(), found.mean(axis=0)[order, 0])
    np.testing.assert_allclose(dots.get_ydata(), targets[order, 0])
    for bars, share in zip(left.collections, (0.95, 0.68), strict=True):
        ends = np.quantile(found[:, order, 0], [(1 - share) / 2, (1 + share) / 2], axis=0)
        np.testing.assert_allclose([segment[:, 1] for segment in bars.get_segments()], ends.T)
        np.testing.assert_allclose([segment[0, 0] for segment in bars.get_segments()], targets[order, 0])
    for ribbon, share in zip(right.collections, (0.95, 0.68), strict=True):
        heights = ribbon.get_paths()[0].vertices[:, 1]
        low, high = np.quantile(found[..., 0], [(1 - share) / 2, (1 + share) / 2], axis=0)
        assert heights.min() == pytest.approx(low.min()) and heights.max() == pytest.approx(high.max())


def test_the_page_says_what_it_leaves_out():
    found = RNG.normal(size=(9, 160, 6))
    said = " ".join(bands_page.list_remarks(find_numbers(found, found[0])))
    assert "The first 4 of 6 outputs" in said and "150 of 160 samples" in said and "of 9 replicas" in said
    many = RNG.normal(size=(60, 20, 1))
    assert bands_page.list_remarks(find_numbers(many, many[0])) == [bands_page.SELECTED]


def test_entropies_are_shares_of_the_right_and_of_the_wrong():
    mean = np.array([[0.99, 0.01], [0.9, 0.1], [0.5, 0.5], [0.6, 0.4]])
    values = compare_classes(np.stack([mean, mean]), np.array([0, 0, 1, 1])).values
    assert isinstance(values, HeldClasses)
    (axis,) = bands_page.draw_entropies(values).axes
    for group in axis.containers:
        assert sum(bar.get_height() for bar in group) == pytest.approx(1)
    assert axis.get_legend_handles_labels()[1] == ["right (2)", "wrong (2)"]
    assert "sure" in bands_page.render_bands(values)


def read_program(page, heading):
    """The first Python block below a heading."""
    section = (ROOT / page).read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2]
    found = re.search(r"```python\n(.*?)```", section, re.S)
    assert found is not None
    return found[1]


@pytest.mark.slow
def test_the_programs_of_the_pages_draw_bands(tmp_path):
    program = read_program("README.md", "Train an ensemble of a model")
    (tmp_path / "bands.py").write_text(program)
    subprocess.run([sys.executable, "bands.py"], cwd=tmp_path, check=True)
    assert (tmp_path / "bands.png").stat().st_size > 10_000
    assert "Predictions" in (tmp_path / "runs" / "bands" / "report.html").read_text()
    (tmp_path / "bands.png").rename(tmp_path / "first.png")
    lines = read_program("docs/ensembles.md", "Bands")
    assert len(lines.split("\n")) <= 8
    before = 'import tfperf, numpy as np\nfit = tfperf.load("runs/bands")\ngrid = np.linspace(-1, 1, 50)[:, None]\n'
    (tmp_path / "lines.py").write_text(f"{before}{lines}")
    subprocess.run([sys.executable, "lines.py"], cwd=tmp_path, check=True)
    assert (tmp_path / "bands.png").stat().st_size > 10_000
