"""report.json, postfit.json and vocabularies, read with json alone, and held against what the verbs make of them."""

import hashlib
import io
import json
from pathlib import Path

import numpy as np
from rich.console import Console

from tests.fuzz.hdf5 import edit
from tfperf.report.compare import make_comparison_table
from tfperf.study.compare import compare_folders
from tfperf.workloads.pdf.results import postfit, store
from tfperf.workloads.translate.vocabulary import read_vocabulary

SETS = "chi2 of "
TOTALS = {"chi2 of all points": "chi2_per_point", "chi2 of all points, without t0": "chi2_no_t0_per_point"}
CURVES = 5  # flavours whose arc lengths count


def compare_runs(before, now):
    """`tfperf compare` of two runs says the figures of their reports. Raises: UserError where one is refused."""
    (found,) = compare_folders([Path(before), Path(now)])
    show(make_comparison_table(found))
    reports = [json.loads((Path(run) / "report.json").read_bytes()) for run in (before, now)]
    for change in found.changes:
        for said, report in zip((change.before, change.now), reports, strict=True):
            if change.name in TOTALS:
                assert said == report[TOTALS[change.name]]
            elif change.name == "ms per step":
                assert said == report["ms_per_step"]["median"]
            elif change.name.startswith(SETS):
                assert said == report["chi2_per_dataset"][change.name.removeprefix(SETS)]["chi2"]
            assert np.isfinite(said)


def show(table):
    Console(file=io.StringIO(), width=80).print(table)


def veto(run, steps):
    """`tfperf postfit` of a run names those that the vetoes take out. Raises: UserError where it is refused."""
    run = Path(run)
    edit(run / "results.h5", steps)
    report = postfit.apply_postfit(run)
    show(postfit.make_veto_table(report))
    result = store.read(run / "results.h5")
    r = result.replicas
    figures = np.column_stack([r.chi2_experimental, r.arc_length[:, :CURVES]]).astype(float)
    good = np.isin(r.status, ("stopped", "max_steps")) & (np.abs(figures) <= 1e100).all(1)
    smooth = np.ones(len(good), bool) if r.integrability is None else (r.integrability <= 0.5).all(1)
    alive = good
    while True:
        left = figures[alive]
        within = (figures - left.mean(0) <= 4 * left.std(0)).all(1) if len(left) > 1 else alive
        now = good & smooth & within
        if now.sum() == alive.sum():
            break
        alive = now
    assert report.passed == tuple(r.id[alive].tolist()) and report.total == len(r.id)
    survive(run)


def survive(run):
    """What `export-lhapdf` takes from postfit.json. Raises: UserError where that is refused."""
    run = Path(run)
    result = store.read(run / "results.h5")
    found = postfit.read_survivors(run, result)
    said = json.loads((run / "postfit.json").read_bytes())
    assert said["results_sha256"] == hashlib.sha256((run / "results.h5").read_bytes()).hexdigest()
    assert found is not None and result.replicas.id[found].tolist() == sorted(said.get("chosen", said["passed"]))


def pieces(path):
    """A vocabulary that is read writes and reads sentences. Raises: UserError where it is refused."""
    found = read_vocabulary(Path(path))
    sentences = ["a file", "\u00d6ffnen", "\U0001f600 x"]
    rows = found.encode(sentences)
    assert all(np.all((row >= 4) & (row < found.size)) for row in rows)
    assert found.decode(rows) == sentences
