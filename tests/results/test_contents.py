"""A run directory is emptied as a whole or not at all."""

import os

import pytest

from tfperf.errors import RunDirectoryError
from tfperf.results.contents import FIRST, LAST, claim_links, clear, refuse_strangers

RUN = "0" * 32


def fill(run, names=("results.h5", "run.json", "card.yaml", "report.html")):
    run.mkdir(exist_ok=True)
    for name in names:
        (run / name).write_text("old")
    return run


@pytest.fixture
def linked(tmp_path):
    """A run directory whose checkpoints and events are links to empty folders, and files that a run puts there."""
    run = fill(tmp_path / "run")
    made = {"checkpoints": ["step-000000000100.ckpt", ".step-000000000200.ckpt.tmp"],
            "events": ["median/events.out.tfevents.0.tfperf", "plugins/profile/2026/host.xplane.pb"]}  # fmt: skip
    for name in made:
        (tmp_path / "scratch" / name).mkdir(parents=True)
        (run / name).symlink_to(tmp_path / "scratch" / name)

    def train():
        for name, files in made.items():
            for file in files:
                (run / name / file).parent.mkdir(parents=True, exist_ok=True)
                (run / name / file).touch()

    return run, train


def test_links_to_folders_stay_and_what_they_lead_to_is_emptied(linked):
    run, train = linked
    claim_links(run, RUN)
    train()
    claim_links(run, RUN)
    clear(run, RUN)
    assert {p.name for p in run.iterdir()} == {"checkpoints", "events"}
    assert all((run / name).is_symlink() and not list((run / name).iterdir()) for name in ("checkpoints", "events"))


def test_what_another_run_has_in_a_linked_folder_is_neither_used_nor_removed(linked):
    run, train = linked
    claim_links(run, RUN)
    train()
    before = sorted(p.name for p in run.rglob("*"))
    with pytest.raises(RunDirectoryError, match="is another run's"):
        claim_links(run, "1" * 32)
    for number in ("1" * 32, None):
        with pytest.raises(RunDirectoryError, match="is not this run's"):
            clear(run, number)
    assert sorted(p.name for p in run.rglob("*")) == before


def test_files_of_nobody_in_a_linked_folder_are_not_taken(linked):
    run, train = linked
    train()
    with pytest.raises(RunDirectoryError, match="does not say whose its files are"):
        claim_links(run, RUN)
    assert not (run / "checkpoints" / "owner").exists()


@pytest.mark.parametrize("name", ["results.h5", "report.html", "checkpoints/model-best.pt", "events/notes.txt"])
def test_only_a_folder_with_nothing_of_anybody_is_begun_in(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    with pytest.raises(RunDirectoryError, match="is not empty and holds no run"):
        refuse_strangers(tmp_path, started=False)
    (tmp_path / name).unlink()
    (tmp_path / "environment.json").touch()  # of a run that was killed before its state was written
    refuse_strangers(tmp_path, started=False)


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
    with pytest.raises(RunDirectoryError, match=r"must be|leads to no folder|is not a run's|is not this run's"):
        clear(run, RUN, ["vocabularies/"])
    assert sorted(p.name for p in run.iterdir()) == before
    assert (scratch / "thesis.tex").read_text() == "years of work"


def test_all_that_a_run_makes_is_removed(tmp_path):
    own = ("more/", "own.json")
    made = (*FIRST, *own, *LAST)
    run = fill(tmp_path / "run", [name for name in made if not name.endswith("/")])
    for name in (name for name in made if name.endswith("/")):
        (run / name / "deep").mkdir(parents=True)
        (run / name / "deep" / "file").touch()
    (run / "mine.txt").touch()
    clear(run, RUN)
    assert sorted(p.name for p in run.iterdir()) == ["mine.txt", "more", "own.json"], "of another workload"
    (run / "results.h5").touch()
    clear(run, RUN, own)
    assert [p.name for p in run.iterdir()] == ["mine.txt"]
