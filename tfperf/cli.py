"""The command line: one click command per verb; each parses, calls one function, prints.

Exit codes: 0 done; 1 forms of an ablation disagree, or a profile shows slower steps than another; 2 bad input; 3 the
run is complete but a replica failed, or a trial of a sweep; 130, 143 stopped by a signal, resumable.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

import tfperf
from tfperf.errors import Interrupted, UserError

if TYPE_CHECKING:
    from tfperf.runcard.translation import Translation
    from tfperf.runs.opening import Wish

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
FAILED_REPLICAS = 3
PIPED_WIDTH = 160  # columns of a wide table that no terminal shows
F = TypeVar("F", bound=Callable[..., Any])


class _Group(click.Group):
    """Errors that a user can mend are printed without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb; exit with the error's code."""
        try:
            return super().invoke(ctx)
        except UserError as error:
            for fault in error.faults:
                click.echo(f"error: {fault}", err=True)
            sys.exit(error.exit_code)
        except KeyboardInterrupt:
            click.echo("stopped", err=True)
            sys.exit(130)
        except Interrupted as stop:
            click.echo(str(stop), err=True)
            sys.exit(stop.exit_code)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(tfperf.__version__, prog_name="tfperf")
def main() -> None:
    """Fit ensembles of networks to data through linear operators, as fast as the machine allows."""


CARD = click.argument("card", type=click.Path(path_type=Path))
RUN = click.argument("run", type=click.Path(path_type=Path))
SET = click.option("--set", "overrides", multiple=True, metavar="KEY.SUB=VALUE", help="Override a key of the card.")
OUTPUT = click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, metavar="RUN", help="Run directory."
)


def _training(command: F) -> F:
    """Options of the verbs that train."""
    options = (
        CARD, OUTPUT, SET,
        click.option("--resume", is_flag=True, help="Go on with an interrupted run; a finished one stays as it is."),
        click.option("--force", is_flag=True, help="Begin again where a run exists."),
        click.option("--replicas", metavar="N|A-B", help="Train these replicas; on a finished run, add them."),
        click.option("--retry-failed", is_flag=True, help="Train a finished run's failed replicas from new weights."),
        click.option("-q", "--quiet", is_flag=True, help="No progress, only the result."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@main.command()
@_training
def fit(**options: Any) -> None:
    """Train the replicas, or the translator, of CARD and write results, report and history to RUN."""
    sys.exit(_fit(**options))


@main.command()
@_training
@click.option("--level", type=click.Choice(["0", "2"]), help="0: no noise; 2: noise of the truth and of each replica.")
@click.option("--law", help="`toy`, or a run directory whose mean PDF is the truth.")
@click.option("--replica", type=int, help="The run's replica that is the truth; the mean by default.")
@click.option("--noise", type=int, help="Number of the truth's noise draw (level 2).")
def closure(
    level: str | None, law: str | None, replica: int | None, noise: int | None,
    overrides: tuple[str, ...], **options: Any,
) -> None:  # fmt: skip
    """Fit pseudo-data made from a known law with the operators of CARD, so that the truth is known."""
    given = {"level": level, "law": law and str(_law(law)), "replica": replica, "noise": noise}
    sets = tuple(f"closure.{key}={value}" for key, value in given.items() if value is not None)
    sys.exit(_fit(overrides=(*sets, *overrides), closure=True, **options))


def _law(text: str) -> Path | str:
    return Path(text).resolve() if Path(text).exists() else text


def _fit(
    card: Path, output: Path, overrides: tuple[str, ...], resume: bool, force: bool, replicas: str | None,
    retry_failed: bool, quiet: bool, closure: bool = False,
) -> int:  # fmt: skip
    from rich.console import Console

    from tfperf.report.tables import summary_table
    from tfperf.runcard.loader import load_any, load_card
    from tfperf.runcard.translation import Translation
    from tfperf.runs.fit import carry_out, fit_closure
    from tfperf.runs.opening import Wish, parse_replicas

    wish = Wish(resume, force, retry_failed, parse_replicas(replicas))
    loaded = load_card(card, overrides) if closure else load_any(card, overrides)
    if isinstance(loaded, Translation):
        return _translate(loaded, output, wish, quiet)
    result, trained = carry_out(fit_closure(loaded) if closure else loaded, output, wish, quiet)
    Console().print(summary_table(result.summary))
    click.echo(f"{output / 'report.html'}")
    return FAILED_REPLICAS if trained and result.summary["replicas"]["failed"] else 0


def _translate(card: "Translation", output: Path, wish: "Wish", quiet: bool) -> int:
    from rich.console import Console

    from tfperf.report.tables import translation_table
    from tfperf.runs.translate import fit_translation

    result, _ = fit_translation(card, output, wish, quiet)
    Console().print(translation_table(result.summary))
    click.echo(f"{output / 'report.html'}")
    return 0


@main.command()
@CARD
@SET
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="DIR", help="By default CARD_ablation.")
@click.option("--replicas", metavar="N|A-B", help="Replicas instead of the card's.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.01),
    default=20.0,
    show_default=True,
    help="For the steps of each form, at least five samples.",
)
@click.option("-q", "--quiet", is_flag=True, help="No progress, only the result.")
def ablate(
    card: Path, overrides: tuple[str, ...], output: Path | None, replicas: str | None, seconds: float, quiet: bool
) -> None:
    """Price each optimisation of CARD, from a naive form to the full engine; 1 when their losses disagree."""
    from dataclasses import replace
    from functools import partial

    from rich.console import Console

    from tfperf.report.ablation import ablation_table
    from tfperf.report.counting import counted
    from tfperf.runcard.loader import load_card
    from tfperf.runs.opening import parse_replicas
    from tfperf.study.ablation import PLOT
    from tfperf.study.ablation import ablate as carry_out

    loaded = load_card(card, overrides)
    loaded = replace(loaded, replicas=parse_replicas(replicas) or loaded.replicas)
    folder = output or Path(f"{card.stem}_ablation")
    report = carry_out(loaded, folder, partial(counted, quiet), seconds)
    Console().print(ablation_table(report))
    click.echo(f"{folder / PLOT}")
    sys.exit(0 if report["agree"] else 1)


@main.command()
@CARD
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, metavar="DIR", help="Folder of results."
)
@SET
@click.option(
    "--on", metavar="PLACE", help="Run on Dask workers: local:N, slurm, sge, htcondor, pbs, as slurm:jobs=4,cores=8."
)
@click.option("--retry-failed", "retry", is_flag=True, help="Measure again what failed.")
@click.option("-q", "--quiet", is_flag=True, help="No progress, only the result.")
def sweep(card: Path, output: Path, overrides: tuple[str, ...], on: str | None, retry: bool, quiet: bool) -> None:
    """Measure CARD at every point of its sweep block, each trial in a process of its own; 3 when a trial failed.

    The same command goes on where it was stopped.
    """
    from functools import partial

    from rich.console import Console

    from tfperf.report.counting import counted
    from tfperf.report.placements import placements_table
    from tfperf.report.placements_page import write_placements
    from tfperf.report.sweep import sweep_table
    from tfperf.study.placements import placement_rows
    from tfperf.study.rows import rows
    from tfperf.study.sweep import sweep as carry_out

    report = carry_out(card, overrides, output, partial(counted, quiet), on, retry)
    found = placement_rows(rows(output))
    console = Console()
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    console.print(placements_table(found) if found else sweep_table(report))
    click.echo(f"{write_placements(output, report['title'], found) if found else output}")
    sys.exit(FAILED_REPLICAS if report["failed"] else 0)


@main.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN RUN...")
def compare(runs: tuple[Path, ...]) -> None:
    """Tell what differs between finished runs, or sweeps: each RUN against the first, with 95 % intervals."""
    from rich.console import Console

    from tfperf.report.compare import compare_table
    from tfperf.study.compare import compare as carry_out

    if len(runs) < 2:
        raise click.UsageError("takes two runs at least")
    for comparison in carry_out(runs):
        Console().print(compare_table(comparison))


@main.command()
@click.argument("path", type=click.Path(path_type=Path))
@SET
@click.option("--against", type=click.Path(path_type=Path), metavar="PATH", help="Compare with this one, the earlier.")
@click.option(
    "--limit", type=click.FloatRange(min=0), default=5.0, show_default=True, help="How many % slower is worse."
)
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="DIR", help="Write the report to DIR.")
@click.option("--logdir", type=click.Path(path_type=Path), metavar="DIR", help="For a card's profile: CARD_profile.")
@click.option(
    "--steps", type=click.IntRange(min=1), help="Steps of a card to record; by default the card's profile block, 300."
)
@click.option("--skip", type=click.IntRange(min=0), help="Steps before them; by default the card's profile block, 100.")
@click.option(
    "--host-level", type=click.IntRange(1, 3), help="How much the host tells; by default the card's profile block, 2."
)
@click.option("--repeat", type=click.IntRange(min=1), default=1, show_default=True, help="Record so many times.")
@click.option("--naive", is_flag=True, help="Record the card's fit as plain Keras would do it.")
def profile(
    path: Path, overrides: tuple[str, ...], against: Path | None, limit: float, output: Path | None,
    logdir: Path | None, repeat: int, naive: bool, **window: int | None,
) -> None:  # fmt: skip
    """Tell where each step's time goes: in the newest profile under PATH, or in one recorded now where it is a card.

    PATH: a card (.yaml), a run, a log directory or an .xplane.pb file. The report of a card's profile is written beside
    it. With --against exit code 1 says that a step takes longer, by more than the limit and than chance may do.
    """
    from rich.console import Console

    from tfperf.report.profile import difference_table, profile_tables, read_profile
    from tfperf.report.profile_files import prepare, write_profile
    from tfperf.runs.recording import recorded
    from tfperf.trace.diff import compare

    if output is not None:
        prepare(output)

    given = [*overrides, *(f"profile.{key}={value}" for key, value in window.items() if value is not None)]
    before = None
    if against is not None:
        before = read_profile(recorded(against, Path(f"{against.stem}_profile"), given, repeat, naive))
    place = recorded(path, logdir or Path(f"{path.stem}_profile"), given, repeat, naive)
    found, report = read_profile(place)
    Console().print(profile_tables(report))
    if output is not None or place != path:
        click.echo(str(write_profile(output or place, found, report, path.name)[0]))
    if before is not None:
        Console().print(difference_table(difference := compare(report, before[1], limit / 100)))
        sys.exit(difference.worse)


@main.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="By default any that is free.")
def board(run: Path, port: int) -> None:
    """Start TensorBoard on RUN, a run or a log directory, for this machine alone; Ctrl-C ends it."""
    from tfperf.report.board import about_profiles, log_directory, start, wait

    folder = log_directory(run)
    click.echo("\n".join([start(folder, port), *about_profiles(folder)]))
    wait()


@main.command()
@CARD
@SET
def check(card: Path, overrides: tuple[str, ...]) -> None:
    """Print every fault of CARD and its data, or ok with what it amounts to."""
    from tfperf.runcard.loader import load_any
    from tfperf.runcard.translation import Translation
    from tfperf.runs.plan import plan

    loaded = load_any(card, overrides)
    if isinstance(loaded, Translation):
        from tfperf.measure.quiet import native_logs_dropped

        with native_logs_dropped():
            from tfperf.runs.translation_plan import translation_plan

            lines = translation_plan(loaded).lines()
    else:
        lines = plan(loaded).lines()
    click.echo("\n".join(["ok", *lines]))


@main.command()
@click.argument("card", type=click.Path(path_type=Path), default="runcard.yaml")
@click.option("--pack", type=click.Path(path_type=Path), default="pack.h5", help="Data pack that the card names.")
def init(card: Path, pack: Path) -> None:
    """Write a commented example card."""
    from tfperf.results.files import create
    from tfperf.runcard.example import example_card

    create(card, example_card(pack))
    click.echo(f"{card}: written; edit it, then `tfperf check {card}`")


@main.command()
@click.argument("workload", type=click.Choice(["replicas", "translate"]), default="replicas")
def schema(workload: str) -> None:
    """Print the JSON schema of runcards of a WORKLOAD, by default replicas, for editors."""
    from tfperf.runcard.workloads import WORKLOADS

    click.echo(json.dumps(WORKLOADS[workload].grammar.json_schema, indent=2))


@main.command()
@RUN
def postfit(run: Path) -> None:
    """Apply the usual vetoes to the replicas of RUN and name who failed."""
    from rich.console import Console

    from tfperf.results.postfit import postfit_run, table

    Console().print(table(postfit_run(run)))


@main.command("export-lhapdf")
@RUN
@click.option("-o", "--output", type=click.Path(path_type=Path), default=".", help="Folder that the grid set goes to.")
@click.option("--name", help="Name of the set; the run directory's name by default.")
def export_lhapdf(run: Path, output: Path, name: str | None) -> None:
    """Write the PDFs of RUN as an LHAPDF grid set."""
    from tfperf.results.lhapdf import export

    click.echo(f"{export(run, output, name)}")


@main.command("import-nnpdf")
@click.argument("tables", type=click.Path(path_type=Path))
@click.argument("sets", nargs=-1, required=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, metavar="PACK", help="Pack to write.")
@click.option(
    "--q2-min", type=float, default=3.49, show_default=True, help="Deep-inelastic points above this Q2 [GeV2]."
)
@click.option("--w2-min", type=float, default=12.5, show_default=True, help="The same for W2 [GeV2].")
def import_nnpdf(tables: Path, sets: tuple[str, ...], output: Path, q2_min: float, w2_min: float) -> None:
    """Make a data pack from the PineAPPL FK tables in folder TABLES and commondata SETS (NAME or NAME:VARIANT)."""
    from tfperf.data.commondata import Limits
    from tfperf.data.nnpdf import import_nnpdf as carry_out

    click.echo(f"{carry_out(tables, sets, output, Limits(q2_min=q2_min, w2_min=w2_min))}")


@main.command()
def doctor() -> None:
    """Tell what works on this machine and what to do about the rest."""
    from tfperf.measure.doctor import main as carry_out

    sys.exit(carry_out())
