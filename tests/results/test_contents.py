"""A run directory is emptied as a whole or not at all."""

import os

import pytest

from tfperf.errors import RunDirectoryError
from tfperf.results.contents import MADE, clear


def fill(run, names=("results.h5", "run.json", "card.yaml", "report.html")):
    run.mkdir(exist_ok=True)
    for name in names:
        (run / name).write_text("old")
    return run


def test_links_to_folders_stay_and_what_they_lead_to_is_emptied(tmp_path):
    run = fill(tmp_path / "run")
    made = {"checkpoints": ["step-000000000100.ckpt", ".step-000000000200.ckpt.tmp"],
            "events": ["median/events.out.tfevents.0.tfperf", "plugins/profile/2026/host.xplane.pb"]}  # fmt: skip
    for name, files in made.items():
        scratch = tmp_path / "scratch" / name
        for file in files:
            (scratch / file).parent.mkdir(parents=True, exist_ok=True)
            (scratch / file).touch()
        (run / name).symlink_to(scratch)
    clear(run)
    assert {p.name for p in run.iterdir()} == set(made)
    assert all((run / name).is_symlink() and not list((run / name).iterdir()) for name in made)


@pytest.mark.parametrize("kind", [
    "stranger in linked checkpoints", "stranger in linked events", "dangling", "file linked", "vocabularies linked",
    "pipe", "results a folder", "checkpoints a file",
])  # fmt: skip
def test_nothing_is_removed_where_something_may_not_be(tmp_path, kind):
    run, scratch = fill(tmp_path / "run"), tmp_path / "scratch"
    scratch.mkdir()
    (scratch / "thesis.tex").write_text("years of work")

    def replace_results():
        (run / "results.h5").unlink()
        (run / "results.h5").mkdir()

    {
        "stranger in linked checkpoints": lambda: (run / "checkpoints").symlink_to(scratch),
        "stranger in linked events": lambda: (run / "events").symlink_to(scratch),
        "dangling": lambda: (run / "checkpoints").symlink_to(tmp_path / "nowhere"),
        "file linked": lambda: (run / "report.json").symlink_to(scratch / "thesis.tex"),
        "vocabularies linked": lambda: (run / "vocabularies").symlink_to(scratch),
        "pipe": lambda: os.mkfifo(run / "environment.json"),
        "results a folder": replace_results,
        "checkpoints a file": lambda: (run / "checkpoints").touch(),
    }[kind]()  # fmt: skip
    before = sorted(p.name for p in run.iterdir())
    with pytest.raises(RunDirectoryError, match=r"must be|leads to no folder|is not a run's"):
        clear(run)
    assert sorted(p.name for p in run.iterdir()) == before
    assert (scratch / "thesis.tex").read_text() == "years of work"


def test_all_that_a_run_makes_is_removed(tmp_path):
    run = fill(tmp_path / "run", [name for name in MADE if "." in name])
    for name in (name for name in MADE if "." not in name):
        (run / name / "deep").mkdir(parents=True)
        (run / name / "deep" / "file").touch()
    (run / "mine.txt").touch()
    clear(run)
    assert [p.name for p in run.iterdir()] == ["mine.txt"]
