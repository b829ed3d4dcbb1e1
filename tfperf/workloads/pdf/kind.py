"""What a card of a replica fit may say."""

from tfperf.runcard.kinds import CardKind
from tfperf.runcard.schema import Grammar
from tfperf.runcard.types import MAX_STEP
from tfperf.workloads.pdf.card import Card

NAME = "pdf"
# in run directories: of a fit that makes its t0 predictions first, that fit's own; what the vetoes said; exact fits of
# replicas that were too far from exact
T0, POSTFIT, EXACT = "t0", "postfit.json", "exact"
KIND = CardKind(
    Grammar(Card),
    {("data", "pack"): "an HDF5 data pack", ("covariance", "extra"): "an HDF5 file"},
    {("replicas",): 1, ("train", "steps"): MAX_STEP},
    {("data", "t0"): ("pack", "none", "fit"), ("closure", "law"): ("toy",)},
    uncompared_keys=("replicas",),
    data=("data", "covariance", "closure", "positivity"),
    performance_keys=("engine.xla", "train.steps_per_call"),
)
