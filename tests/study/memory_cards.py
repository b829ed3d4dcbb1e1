"""Memory studies over the made-up device of fake_memory.py."""

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tfperf.signals import Signals
from tfperf.study.memory import run_memory_study
from tfperf.study.memory_search import MemoryAsker, Room, measure_mode
from tfperf.study.trial_log import TrialLog
from tfperf.workloads.cards import load_checked_card
from tfperf.workloads.memory_trial import MeasuredBatch, choose_next, compute_bound

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


class UnkeptLog(TrialLog):
    """In no file."""

    def save(self, report):
        pass


@dataclass(kw_only=True)
class MadeUpAsker(MemoryAsker):
    """Answers by itself, as a trial would whose peaks and RAM are given by functions of the batch."""

    peak: Callable[..., float]
    ram_of: Callable[[int], float]
    batches: int  # after which the first process has no time left
    lengths: tuple[int, ...] = ()

    def _ask(self, key, request):
        batch, found = request["batch"], []
        record: dict[str, Any] = {"lengths": [*self.lengths]}
        length = request["length"] or max(self.lengths, default=None)
        while True:
            peak = self.peak(batch) if length is None else self.peak(batch, length)
            if peak > self.room.limit:
                record["exhausted"] = {"batch": batch, "why": "made up"}
                break
            found.append(MeasuredBatch(batch, int(peak), int(peak), int(self.ram_of(batch)), 4e-3 + 1e-4 * batch))
            if request["share"] is None or len(found) == self.batches:
                break
            bound = compute_bound(found[0].most, self.room.limit, request["share"])
            batch = choose_next(batch, peak, bound)
            if peak > bound:
                break
        return {"stages": [], "batches": [asdict(one) for one in found], **record}


def measure_made_up(peak, ram_of=lambda batch: 8e8 + 1e6 * batch, *, limit=10**9, ram=None, batches=50, lengths=()):
    """What a mode's report says of made-up peaks (bytes), and the trials that it asked for, by their keys."""
    log = UnkeptLog(Path("unused"), {})
    asker = MadeUpAsker(
        tree={}, room=Room(device="cpu-arena", budget=limit, margin=0.0, ram=ram), log=log, signals=Signals(),
        show=lambda *_: None, timeout=1, command=(), peak=peak, ram_of=ram_of, batches=batches, lengths=lengths,
    )  # fmt: skip
    return measure_mode(asker, "train"), [*log.trials]
