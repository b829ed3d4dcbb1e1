"""`tfperf ablate`: what each optimisation is worth, from the naive form to the card as it is."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfperf.errors import CardError, RunDirectoryError, Stopped
from tfperf.measure.environment import collect_environment
from tfperf.report.ablation import add_speedups
from tfperf.report.plots_ablation import draw_waterfall
from tfperf.report.style import apply_style, to_png
from tfperf.results.files import write_atomically
from tfperf.results.lock import DirectoryLock
from tfperf.results.rundir import has_run
from tfperf.runcard.dump import to_json_tree
from tfperf.runcard.keys import Tree, get, put
from tfperf.runcard.kinds import AnyCard
from tfperf.signals import Signals
from tfperf.study.agreement import compare_losses
from tfperf.study.ledger import ENVIRONMENT, Ledger, make_card_identity, write
from tfperf.study.process import RunForm, run_form
from tfperf.workloads.registry import WORKLOADS
from tfperf.workloads.switches import AblationPlan, Form, Request, Switches

SECONDS = 20.0
PLOT = "ablation.png"
ShowProgress = Callable[[int, int, str], None]  # trials done, in all, what is going on
OpenProgress = Callable[[], AbstractContextManager[ShowProgress]]


@dataclass
class _Study:
    card: AnyCard
    switches: Switches
    tree: Tree
    plan: AblationPlan
    ledger: Ledger
    seconds: float
    run_form: RunForm
    signals: Signals
    show_progress: ShowProgress

    def run(self) -> dict[str, Any]:
        """Every trial that is not in the ledger yet; the naive form first, since it refuses most."""
        self._measure_form(self.plan.cumulative[0])
        self._decide()
        for form in (*self.plan.references, *self.plan.forms):
            self._measure_form(form)
        return self._make_report()

    def _decide(self) -> None:
        """Put what `auto` stands for into the card, so that all forms have the same."""
        if self.ledger.choices is None:
            choices: Tree = {}
            if "auto" in (get(self.tree, key) for key in self.switches.decided):
                self.show_progress(len(self.ledger.trials), self._count(), "measuring what `auto` stands for")
                record = self._run_request(Request(self.tree, decide=True))
                if "error" in record:
                    raise CardError(f"the engine's choices could not be measured: {record['error']}")
                choices = record["choices"]
            self.ledger.choices = choices
        for key, value in self.ledger.choices.items():
            put(self.tree, key, value)
        self.plan = self.switches.make_plan(self.tree)
        self.ledger.save(self._make_report())

    def _measure_form(self, form: Form) -> None:
        """Measure a form once."""
        if form.key in self.ledger.trials:
            return
        self.show_progress(len(self.ledger.trials), self._count(), f"measuring: {form.key}")
        timed = form in self.plan.forms
        seconds = self.seconds if timed else None
        request = Request(self.plan.make_tree(self.tree, form), form.naive, False, seconds, self.switches.checked)
        record = self._run_request(request)
        self.ledger.trials[form.key] = record
        self.ledger.save(self._make_report())
        self.show_progress(len(self.ledger.trials), self._count(), f"{form.key}: {_describe_outcome(record)}")

    def _run_request(self, request: Request) -> dict[str, Any]:
        if self.signals.received is not None:
            raise Stopped(self.signals.received)
        return self.run_form(request, self.signals)

    def _count(self) -> int:
        return len({*self.plan.forms, *self.plan.references})

    def _make_report(self) -> dict[str, Any]:
        """All that people read, from what was measured so far."""
        without = {name: self._make_entry(form) for name, form in self.plan.leave_one_out.items()}
        steps = [
            {"name": name, "says": text, **self._make_entry(form), "without": without.get(name)}
            for (name, text), form in zip(self.switches.describe_series(self.plan), self.plan.cumulative, strict=True)
        ]
        report = {
            "title": self.card.title, **self.switches.figures, "setting": self.switches.setting,
            "left_out": dict(self.plan.left_out), "series": steps,
        }  # fmt: skip
        return add_speedups(report)

    def _make_entry(self, form: Form) -> dict[str, Any]:
        """What is told of a form; None for what is not known."""
        record = self.ledger.trials.get(form.key, {})
        reference = self.ledger.trials.get(self.plan.make_reference(form).key, {})
        compared = None
        if "losses" in record and "losses" in reference:
            allowed = 0.0 if form.naive else self.switches.get_tolerance(self.plan.make_tree(self.tree, form))
            compared = compare_losses(record, reference, allowed)
        names = ("ms_per_step", "steps_per_call", "peak_rss_bytes", "seconds", "error")
        return {"form": form.key, **{name: record.get(name) for name in names}, "agreement": compared}


def _describe_outcome(record: dict[str, Any]) -> str:
    if "error" in record:
        return f"could not be measured: {record['error']}"
    return f"{record['ms_per_step']['median']:.4g} ms a step" if "ms_per_step" in record else "done"


def ablate(
    card: AnyCard, output: Path, open_progress: OpenProgress, seconds: float = SECONDS, run_form: RunForm = run_form
) -> dict[str, Any]:
    """Measure all forms of a card and write ablation.json, ablation.png and environment.json; returns the report.

    What is in the folder already is not measured again. UserError for a faulty card or folder, and for a card
    whose workload has no switches; Stopped when a signal came: what was measured until then is kept.
    """
    switches = WORKLOADS.get_offering("ablate", card.workload).make_switches(card)
    if has_run(output):
        raise RunDirectoryError(f"{output}: holds a run; choose another folder for an ablation")
    with Signals().listen() as signals, DirectoryLock(output) as held, signals.defer(), open_progress() as show:
        output = held.path
        ledger = Ledger(output, make_card_identity(card, switches.hashes))
        ledger.load()
        write(output / ENVIRONMENT, collect_environment())
        tree = to_json_tree(card)
        report = _Study(card, switches, tree, switches.make_plan(tree), ledger, seconds, run_form, signals, show).run()
        with apply_style(), write_atomically(output / PLOT) as temporary:
            temporary.write_bytes(to_png(draw_waterfall(report)))
    return report
