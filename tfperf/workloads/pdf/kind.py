"""What a card of a replica fit may say."""

from tfperf.runcard.kinds import CardKind
from tfperf.runcard.schema import Grammar
from tfperf.runcard.types import MAX_STEP
from tfperf.workloads.pdf.card import Card

NAME = "pdf"
KIND = CardKind(
    Grammar(Card),
    {("data", "pack"): "an HDF5 data pack", ("covariance", "extra"): "an HDF5 file"},
    {("replicas",): 1, ("train", "steps"): MAX_STEP},
    {("data", "t0"): ("pack", "none", "fit"), ("closure", "law"): ("toy",)},
    apart=("replicas",),
)
