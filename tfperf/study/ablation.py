"""`tfperf ablate`: what each optimisation is worth, from plain Keras to the card as it is."""

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
from tfperf.study.process import RunVariant, run_variant
from tfperf.study.trial_log import ENVIRONMENT, TrialLog, make_card_identity, write
from tfperf.workloads.registry import WORKLOADS
from tfperf.workloads.switches import AblationPlan, Request, Switches, Variant

SECONDS = 20.0
PLOT = "ablation.png"
ShowProgress = Callable[[int, int, str], None]  # trials done, in all, what is going on
OpenProgress = Callable[[], AbstractContextManager[ShowProgress]]


@dataclass(kw_only=True)
class _Study:
    card: AnyCard
    switches: Switches
    tree: Tree
    plan: AblationPlan
    log: TrialLog
    seconds: float
    run_variant: RunVariant
    signals: Signals
    show_progress: ShowProgress

    def run(self) -> dict[str, Any]:
        """Every trial that is not in the log yet; the naive variant first, since it refuses most."""
        self._measure_variant(self.plan.cumulative[0])
        self._decide()
        for variant in (*self.plan.references, *self.plan.variants):
            self._measure_variant(variant)
        return self._make_report()

    def _decide(self) -> None:
        """Put what `auto` stands for into the card, so that all variants have the same."""
        if self.log.choices is None:
            choices: Tree = {}
            if "auto" in (get(self.tree, key) for key in self.switches.decided):
                self.show_progress(len(self.log.trials), self._count(), "measuring what `auto` stands for")
                record = self._run_request(Request(self.tree, decide=True))
                if "error" in record:
                    raise CardError(f"the engine's choices could not be measured: {record['error']}")
                choices = record["choices"]
            self.log.choices = choices
        for key, value in self.log.choices.items():
            put(self.tree, key, value)
        self.plan = self.switches.make_plan(self.tree)
        self.log.save(self._make_report())

    def _measure_variant(self, variant: Variant) -> None:
        """Measure a variant once."""
        if variant.key in self.log.trials:
            return
        self.show_progress(len(self.log.trials), self._count(), f"measuring: {variant.key}")
        timed = variant in self.plan.variants
        seconds = self.seconds if timed else None
        request = Request(self.plan.make_tree(self.tree, variant), variant.naive, False, seconds, self.switches.checked)
        record = self._run_request(request)
        self.log.trials[variant.key] = record
        self.log.save(self._make_report())
        self.show_progress(len(self.log.trials), self._count(), f"{variant.key}: {_describe_outcome(record)}")

    def _run_request(self, request: Request) -> dict[str, Any]:
        if self.signals.received is not None:
            raise Stopped(self.signals.received)
        return self.run_variant(request, self.signals)

    def _count(self) -> int:
        return len({*self.plan.variants, *self.plan.references})

    def _make_report(self) -> dict[str, Any]:
        """All that people read, from what was measured so far."""
        without = {name: self._make_entry(variant) for name, variant in self.plan.leave_one_out.items()}
        steps = [
            {"name": name, "says": text, **self._make_entry(variant), "without": without.get(name)}
            for (name, text), variant in zip(
                self.switches.describe_series(self.plan), self.plan.cumulative, strict=True
            )
        ]
        report = {
            "title": self.card.title, **self.switches.figures, "setting": self.switches.setting,
            "left_out": dict(self.plan.left_out), "series": steps,
        }  # fmt: skip
        return add_speedups(report)

    def _make_entry(self, variant: Variant) -> dict[str, Any]:
        """What is told of a variant; None for what is not known."""
        record = self.log.trials.get(variant.key, {})
        reference = self.log.trials.get(self.plan.make_reference(variant).key, {})
        compared = None
        if "losses" in record and "losses" in reference:
            allowed = 0.0 if variant.naive else self.switches.get_tolerance(self.plan.make_tree(self.tree, variant))
            compared = compare_losses(record, reference, allowed)
        names = ("ms_per_step", "steps_per_call", "peak_rss_bytes", "seconds", "error")
        return {"form": variant.key, **{name: record.get(name) for name in names}, "agreement": compared}


def _describe_outcome(record: dict[str, Any]) -> str:
    if "error" in record:
        return f"could not be measured: {record['error']}"
    return f"{record['ms_per_step']['median']:.4g} ms a step" if "ms_per_step" in record else "done"


def ablate(
    card: AnyCard,
    output: Path,
    open_progress: OpenProgress,
    seconds: float = SECONDS,
    run_variant: RunVariant = run_variant,
) -> dict[str, Any]:
    """Measure all variants of a card and write ablation.json, ablation.png and environment.json; returns the report.

    What is in the folder already is not measured again. UserError for a faulty card or folder, and for a card
    whose workload has no switches; Stopped when a signal came: what was measured until then is kept.
    """
    switches = WORKLOADS.get_offering("ablate", card.workload).make_switches(card)
    if has_run(output):
        raise RunDirectoryError(f"{output}: holds a run; choose another folder for an ablation")
    with Signals().listen() as signals, DirectoryLock(output) as held, signals.defer(), open_progress() as show:
        output = held.path
        log = TrialLog(output, make_card_identity(card, switches.hashes))
        log.load()
        write(output / ENVIRONMENT, collect_environment())
        tree = to_json_tree(card)
        report = _Study(
            card=card, switches=switches, tree=tree, plan=switches.make_plan(tree), log=log, seconds=seconds,
            run_variant=run_variant, signals=signals, show_progress=show,
        ).run()  # fmt: skip
        with apply_style(), write_atomically(output / PLOT) as temporary:
            temporary.write_bytes(to_png(draw_waterfall(report)))
    return report
