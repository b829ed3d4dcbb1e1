"""Records of trials without trials, for the small card."""

from contextlib import nullcontext

from tests.make_pack import make_card
from tfperf.study.ablation import ablate
from tfperf.workloads.pdf.cards import load_card

MS = {"full": 1.0, "naive, without quadrature": 60.0, "without products": 1.5, "without tolerance": 5.0}
NAMES = ["quadrature", "products", "steps_per_call", "xla", "stacks", "form", "tolerance"]


def losses(request, factor=1.0):
    """Of the naive variant, nearly; another quadrature has others."""
    trapezoid = request.card["model"]["sum_rules"]["quadrature"] == "trapezoid"
    size = (100.1 if trapezoid else 100.0) * factor
    chi2 = {"training": [size, 2 * size], "validation": [size / 3] * 2}
    return chi2 | {"positivity": [0.0] * 2, "integrability": [1.0] * 2}


class Trials:
    """Stands for `measure`: remembers what was asked."""

    def __init__(self, spoilt=(), broken=(), stop_after=None):
        self.requests, self.spoilt, self.broken, self.stop_after = [], spoilt, broken, stop_after

    def __call__(self, request, signals):
        if self.stop_after is not None and len(self.requests) >= self.stop_after:
            raise KeyboardInterrupt
        self.requests.append(request)
        if request.decide:
            return {"choices": {"engine.form": "folded", "engine.xla": True, "train.steps_per_call": 50}}
        key = self.key(request)
        if key in self.broken:
            return {"error": "its process ended with 1: no memory"}
        record = {"losses": losses(request, 1.01 if key in self.spoilt else 1.0 + 1e-9)}
        record["points"] = {"training": [70, 70], "validation": [20, 20]}
        if request.seconds is not None:
            ms = MS.get(key, 30.0)
            record |= {"ms_per_step": {"median": ms, "q1": 0.9 * ms, "q3": 1.2 * ms}, "peak_rss_bytes": 7e8}
        return record

    @staticmethod
    def key(request):
        """The variant, read off the card that the trial gets."""
        card = request.card
        off = {
            "quadrature": card["model"]["sum_rules"]["quadrature"] == "trapezoid",
            "products": card["engine"]["products"] == "padded",
            "steps_per_call": card["train"]["steps_per_call"] == 1, "xla": card["engine"]["xla"] is False,
            "stacks": card["engine"]["stacks"] == 1,
            "form": card["engine"]["form"] == "shared", "tolerance": card["engine"]["tolerance"] == 0,
        }  # fmt: skip
        names = ", ".join(name for name, is_off in off.items() if is_off)
        if request.naive:
            return f"naive, without {names}" if names else "naive"
        return f"without {names}" if names else "full"


def make_auto_card(folder, **card):
    """The small card with nothing turned off."""
    return load_card(make_card(folder, xla="auto", form="auto", **card), ["engine.tolerance=1e-3"])


def run(card, folder, trials):
    """An ablation with these trials; what it showed comes second."""
    shown = []
    report = ablate(card, folder, lambda: nullcontext(lambda *event: shown.append(event)), 1.0, trials)
    return report, shown
