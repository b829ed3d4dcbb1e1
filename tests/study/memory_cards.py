"""Memory studies over the made-up device of fake_memory.py."""

import sys

from tfperf.study.memory import run_memory_study
from tfperf.workloads.cards import load_checked_card

COMMAND = (sys.executable, "-m", "tests.study.fake_memory")
CARD = """workload: keras
title: {title}
model: {{build: "nets.py:build"}}
data: {{build: "nets.py:load"}}
train: {{epochs: 1}}
memory: {{budget: {budget}, device: cpu-arena, ram: {ram}}}
"""


def run_study(folder, name="out", title="fine", budget=1.0, ram="free", **options):
    """The report of a study in a folder of that name; titles: fake_memory.py."""
    (folder / "nets.py").write_text("def build(): ...\n\n\ndef load(): ...\n")
    (folder / "card.yaml").write_text(CARD.format(title=title, budget=budget, ram=ram))
    card = load_checked_card(folder / "card.yaml", ())
    return run_memory_study(card, folder / name, lambda *_: None, command=COMMAND, **options)
