"""`tfperf ablate`: what each optimisation is worth, from the naive form to the card as it is."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfperf.errors import CardError, RunDirectoryError
from tfperf.measure.environment import environment
from tfperf.report.ablation import worth
from tfperf.report.plots_ablation import waterfall_figure
from tfperf.report.style import house_style, to_png
from tfperf.results.files import atomic_write
from tfperf.results.lock import DirectoryLock
from tfperf.results.rundir import holds_run
from tfperf.runcard.dump import as_json_tree
from tfperf.runcard.keys import Tree, get, put
from tfperf.runcard.kinds import AnyCard
from tfperf.signals import Signals
from tfperf.study.agreement import agreement
from tfperf.study.ledger import ENVIRONMENT, Ledger, identity, write
from tfperf.study.process import Measure, Stopped, measure
from tfperf.workloads.registry import WORKLOADS
from tfperf.workloads.switches import Form, Plan, Request, Switches

SECONDS = 20.0
PLOT = "ablation.png"
Show = Callable[[int, int, str], None]  # trials done, in all, what is going on
Shown = Callable[[], AbstractContextManager[Show]]


@dataclass
class _Study:
    card: AnyCard
    switches: Switches
    tree: Tree
    plan: Plan
    ledger: Ledger
    seconds: float
    measure: Measure
    signals: Signals
    show: Show

    def carry_out(self) -> dict[str, Any]:
        """Every trial that is not in the ledger yet; the naive form first, since it refuses most."""
        self._trial(self.plan.cumulative[0])
        self._decide()
        for form in (*self.plan.references, *self.plan.forms):
            self._trial(form)
        return self._report()

    def _decide(self) -> None:
        """Put what `auto` stands for into the card, so that all forms have the same."""
        if self.ledger.choices is None:
            choices: Tree = {}
            if "auto" in (get(self.tree, key) for key in self.switches.decided):
                self.show(len(self.ledger.trials), self._count(), "measuring what `auto` stands for")
                record = self._measured(Request(self.tree, decide=True))
                if "error" in record:
                    raise CardError(f"the engine's choices could not be measured: {record['error']}")
                choices = record["choices"]
            self.ledger.choices = choices
        for key, value in self.ledger.choices.items():
            put(self.tree, key, value)
        self.plan = self.switches.plan(self.tree)
        self.ledger.save(self._report())

    def _trial(self, form: Form) -> None:
        """Measure a form once."""
        if form.key in self.ledger.trials:
            return
        self.show(len(self.ledger.trials), self._count(), f"measuring: {form.key}")
        timed = form in self.plan.forms
        seconds = self.seconds if timed else None
        request = Request(self.plan.tree(self.tree, form), form.naive, False, seconds, self.switches.checked)
        record = self._measured(request)
        self.ledger.trials[form.key] = record
        self.ledger.save(self._report())
        self.show(len(self.ledger.trials), self._count(), f"{form.key}: {_outcome(record)}")

    def _measured(self, request: Request) -> dict[str, Any]:
        if self.signals.received is not None:
            raise Stopped(self.signals.received)
        return self.measure(request, self.signals)

    def _count(self) -> int:
        return len({*self.plan.forms, *self.plan.references})

    def _report(self) -> dict[str, Any]:
        """All that people read, from what was measured so far."""
        without = {name: self._entry(form) for name, form in self.plan.leave_one_out.items()}
        steps = [
            {"name": name, "says": text, **self._entry(form), "without": without.get(name)}
            for (name, text), form in zip(self.switches.steps(self.plan), self.plan.cumulative, strict=True)
        ]
        report = {
            "title": self.card.title, **self.switches.figures, "setting": self.switches.setting,
            "left_out": dict(self.plan.left_out), "series": steps,
        }  # fmt: skip
        return worth(report)

    def _entry(self, form: Form) -> dict[str, Any]:
        """What is told of a form; None for what is not known."""
        record = self.ledger.trials.get(form.key, {})
        reference = self.ledger.trials.get(self.plan.reference(form).key, {})
        compared = None
        if "losses" in record and "losses" in reference:
            allowed = 0.0 if form.naive else self.switches.tolerance(self.plan.tree(self.tree, form))
            compared = agreement(record, reference, allowed)
        names = ("ms_per_step", "steps_per_call", "peak_rss_bytes", "seconds", "error")
        return {"form": form.key, **{name: record.get(name) for name in names}, "agreement": compared}


def _outcome(record: dict[str, Any]) -> str:
    if "error" in record:
        return f"could not be measured: {record['error']}"
    return f"{record['ms_per_step']['median']:.4g} ms a step" if "ms_per_step" in record else "done"


def ablate(
    card: AnyCard, output: Path, shown: Shown, seconds: float = SECONDS, measure: Measure = measure
) -> dict[str, Any]:
    """Measure all forms of a card and write ablation.json, ablation.png and environment.json; returns the report.

    What is in the folder already is not measured again. UserError for a faulty card or folder, and for a card
    whose workload has no switches; Stopped when a signal came: what was measured until then is kept.
    """
    switches = WORKLOADS.offering("ablate", card.workload).switches(card)
    if holds_run(output):
        raise RunDirectoryError(f"{output}: holds a run; choose another folder for an ablation")
    with Signals().listening() as signals, DirectoryLock(output) as held, signals.patient(), shown() as show:
        output = held.path
        ledger = Ledger(output, identity(card, switches.hashes))
        ledger.load()
        write(output / ENVIRONMENT, environment())
        tree = as_json_tree(card)
        report = _Study(card, switches, tree, switches.plan(tree), ledger, seconds, measure, signals, show).carry_out()
        with house_style(), atomic_write(output / PLOT) as temporary:
            temporary.write_bytes(to_png(waterfall_figure(report)))
    return report
