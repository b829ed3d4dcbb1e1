"""A card of a tiny translation, and what its commands end with."""

import json
import subprocess
import sys

from tests.runcard.cards import ROOT
from tests.workloads.translate.cards import TABLE

STEPS, EVERY = 30, 10
CARD = f"""\
workload: translate
title: A <tiny> translation
data:
  training: {{table: pairs.tsv, columns: [english, german]}}
  validation_share: 0.1
  test_share: 0.1
  vocabulary: 320
  max_length: 12
  batch: 4
model: {{units: 8, layers: 1, dropout: 0.1}}
train:
  steps: {STEPS}
  steps_per_call: 4
  validate_every: {EVERY}
  checkpoint_every: 5
  optimizer: {{learning_rate: 0.35}}
decode: {{beam: 2, max_length: 8, samples: 3}}
"""


def make_card(folder, text=CARD):
    """A card beside the first pairs of the shipped table."""
    lines = TABLE.read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "pairs.tsv").write_text("".join(lines[:300]), encoding="utf-8")
    (folder / "card.yaml").write_text(text)
    return folder / "card.yaml"


def carry_out(*commands):
    """Run the commands one after the other in a process of their own; (exit code, output) of each."""
    plain = [[str(word) for word in command] for command in commands]
    done = subprocess.run(
        [sys.executable, "-m", "tests.workloads.translate.child"], input=json.dumps(plain), cwd=ROOT,
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
