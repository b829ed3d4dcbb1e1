"""Cards of workload translate."""

from tests.runcard.cards import ROOT

TABLE = ROOT / "data" / "gettext_en_de" / "pairs.tsv"
SHORT = f"""\
workload: translate
data:
  training: {{table: {TABLE}, columns: [english, german]}}
train:
  steps: 100
"""
