"""Verbs that measure: variants of a card, points of a sweep, profiles; and that compare."""

import sys
from pathlib import Path

import click

from tfperf.cli.group import main
from tfperf.console.options import CARD, SET, FiniteRange
from tfperf.console.words import show_text
from tfperf.errors import AMISS, DONE, FAILED

MOST_STEPS = 100_000_000


@main.command()
@CARD
@SET
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="DIR", help="By default CARD_ablation.")
@click.option("--replicas", metavar="N|A-B", help="Replicas instead of the card's.")
@click.option(
    "--seconds",
    type=FiniteRange(0.01, 86_400),
    default=20.0,
    show_default=True,
    help="For the steps of each form, at least five samples.",
)
@click.option("-q", "--quiet", is_flag=True, help="No progress, only the result.")
def ablate(
    card: Path, overrides: tuple[str, ...], output: Path | None, replicas: str | None, seconds: float, quiet: bool
) -> None:
    """Price each optimisation of CARD, from a naive form to the full engine.

    Exit code 1 says that losses of its forms disagree, or that a form could not be measured.
    """
    from functools import partial

    from tfperf.console.screen import show
    from tfperf.report.ablation import make_ablation_table
    from tfperf.report.study_progress import show_progress
    from tfperf.study.ablation import PLOT
    from tfperf.study.ablation import ablate as run_ablation
    from tfperf.workloads.cards import load_checked_card
    from tfperf.workloads.options import parse_replicas, replace_replicas

    loaded = replace_replicas(load_checked_card(card, overrides), parse_replicas(replicas))
    folder = output or Path(f"{card.stem}_ablation")
    report = run_ablation(loaded, folder, partial(show_progress, quiet), seconds)
    show(make_ablation_table(report))
    show_text(f"{folder / PLOT}")
    sys.exit(DONE if report["agree"] else AMISS)


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
    """Measure CARD at every point of its sweep block, each trial in a process of its own.

    The same command goes on where it was stopped. Exit code 3 says that a trial failed.
    """
    from functools import partial

    from tfperf.console.screen import show
    from tfperf.report.study_progress import show_progress
    from tfperf.study.placements import write_report
    from tfperf.study.sweep import run_sweep

    report = run_sweep(card, overrides, output, partial(show_progress, quiet), on, retry)
    table, path = write_report(output, report)
    show(table)
    show_text(f"{path}")
    sys.exit(FAILED if report["failed"] else DONE)


@main.command()
@CARD
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="DIR", help="Folder of results.")
@SET
@click.option(
    "--mode",
    "modes",
    multiple=True,
    type=click.Choice(["train", "predict"]),
    default=["train"],
    show_default=True,
    help="What takes the memory; may be given twice.",
)
@click.option(
    "--budget", metavar="GIB", help="GiB that may be used, as 80 or 80GiB, or device; else the card's memory.budget."
)
@click.option(
    "--timeout", type=FiniteRange(1, 86_400), default=600.0, show_default=True, help="Seconds of a trial at most."
)
@click.option("--static", is_flag=True, help="Only an estimate from the traced step; nothing is run or written.")
@click.option("-q", "--quiet", is_flag=True, help="No progress, only the result.")
def memory(
    card: Path, output: Path | None, overrides: tuple[str, ...], modes: tuple[str, ...], budget: str | None,
    timeout: float, static: bool, quiet: bool,
) -> None:  # fmt: skip
    """Tell what CARD costs in memory, what each sample adds, and the largest batch that fits, proved by running it.

    Each trial is a process of its own. The same command goes on where it was stopped. With --static the budget may be
    that of a machine that is not there.
    """
    from tfperf.console.screen import show
    from tfperf.report.memory import make_memory_tables
    from tfperf.report.static_memory import make_static_tables
    from tfperf.report.study_progress import show_progress
    from tfperf.results.contents import PAGE
    from tfperf.study.memory import run_memory_study
    from tfperf.study.static_memory import run_static_study
    from tfperf.workloads.cards import load_checked_card

    given = [*overrides, *(() if budget is None else (f"memory.budget={budget.removesuffix('GiB').strip()}",))]
    if static:
        show(make_static_tables(run_static_study(load_checked_card(card, given), modes, timeout)))
        return
    if output is None:
        raise click.UsageError("Missing option '-o' / '--output': the folder of results")
    with show_progress(quiet) as show_count:
        report = run_memory_study(load_checked_card(card, given), output, show_count, modes, timeout)
    show(make_memory_tables(report))
    show_text(f"{output / PAGE}")


@main.command("input")
@CARD
@click.option(
    "-o", "--output", required=True, type=click.Path(path_type=Path), metavar="DIR", help="Folder of results."
)
@SET
@click.option("--sweep", is_flag=True, help="Also measure each number of workers that a rate is predicted for.")
@click.option("--apply", is_flag=True, help="Try settings that leave batches as they are; write a card with the best.")
@click.option(
    "--seconds",
    type=FiniteRange(1, 3600),
    default=10.0,
    show_default=True,
    help="Seconds of each measurement; the first takes up to three times as long where rates scatter.",
)
@click.option(
    "--timeout", type=FiniteRange(1, 86_400), default=600.0, show_default=True, help="Seconds of a trial at most."
)
@click.option("-q", "--quiet", is_flag=True, help="No progress, only the result.")
def input_(
    card: Path, output: Path, overrides: tuple[str, ...], sweep: bool, apply: bool, seconds: float, timeout: float,
    quiet: bool,
) -> None:  # fmt: skip
    """Tell whether CARD's model waits for its data, how many workers would deliver enough, and which code to change.

    Five trials, each a process of its own, take two minutes or so; --sweep adds two for each number of workers. The
    same command goes on where it was stopped; with --sweep or --apply, after one without, only what is missing is
    measured. A folder holds one study: another card or other --seconds need another folder.
    """
    from tfperf.console.screen import show
    from tfperf.report.input import make_input_tables
    from tfperf.report.study_progress import show_progress
    from tfperf.results.contents import PAGE
    from tfperf.study.input import run_input_study
    from tfperf.workloads.cards import load_checked_card

    with show_progress(quiet) as show_count:
        report = run_input_study(
            load_checked_card(card, overrides), output, show_count,
            sweep=sweep, apply=apply, seconds=seconds, timeout=timeout,
        )  # fmt: skip
    show(make_input_tables(report))
    show_text(f"{output / PAGE}")


@main.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN RUN...")
def compare(runs: tuple[Path, ...]) -> None:
    """Tell what differs between finished runs, sweeps or memory studies: each RUN against the first, with intervals."""
    from tfperf.console.screen import show
    from tfperf.report.compare import make_comparison_table
    from tfperf.study.compare import compare_folders

    if len(runs) < 2:
        raise click.UsageError("takes two runs at least")
    for comparison in compare_folders(runs):
        show(make_comparison_table(comparison))


@main.command()
@click.argument("path", type=click.Path(path_type=Path))
@SET
@click.option("--against", type=click.Path(path_type=Path), metavar="PATH", help="Compare with this one, the earlier.")
@click.option("--limit", type=FiniteRange(0, 1e6), default=5.0, show_default=True, help="How many % slower is worse.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="DIR", help="Write the report to DIR.")
@click.option("--logdir", type=click.Path(path_type=Path), metavar="DIR", help="For a card's profile: CARD_profile.")
@click.option(
    "--steps", type=click.IntRange(1, MOST_STEPS), help="Steps of a card to record; else the card's profile block, 300."
)
@click.option("--skip", type=click.IntRange(0, MOST_STEPS), help="Steps before; else the card's profile block, 100.")
@click.option(
    "--host-level", type=click.IntRange(1, 3), help="How much the host tells; by default the card's profile block, 2."
)
@click.option("--repeat", type=click.IntRange(1, 100), default=5, show_default=True, help="Captures of a card.")
@click.option("--naive", is_flag=True, help="Record the card's fit as plain Keras would do it.")
@click.option(
    "--apply", is_flag=True, help="Try the first finding that a key of the card changes; write a card with it."
)
def profile(
    path: Path, overrides: tuple[str, ...], against: Path | None, limit: float, output: Path | None,
    logdir: Path | None, repeat: int, naive: bool, apply: bool, **window: int | None,
) -> None:  # fmt: skip
    """Tell where each step's time goes: in the newest profile under PATH, or in one recorded now where it is a card.

    PATH: a card (.yaml), a run, a log directory or an .xplane.pb file. What is recorded of a card goes to -o with the
    report, or to CARD_profile; the report of a run to profile/ in it. Each capture of a card is a process of its own;
    with --against CARD they take turns. With --against exit code 1 says that a step takes longer, by more than chance
    may do and than the limit. --apply measures the card with and without a change that leaves its results as they are,
    in --repeat turns, and writes CARD_faster.yaml beside the report where it wins.
    """
    from tfperf.console.screen import show
    from tfperf.report.profile import make_difference_table, make_profile_tables, read_profile
    from tfperf.report.profile_applied import list_change_lines
    from tfperf.report.profile_files import CARD_SUFFIXES, find_report_folder, prepare_folder, write_profile
    from tfperf.report.study_progress import show_progress
    from tfperf.study.profile import record_profiles
    from tfperf.study.profile_apply import apply_findings, load_measurable_card, refuse_apply
    from tfperf.trace.diff import compare

    recorded = [f"profile.{key}={value}" for key, value in window.items() if value is not None]
    given = [*overrides, *recorded]
    if apply:
        refuse_apply(path, against, naive, repeat)
        measurable = load_measurable_card(path, overrides, recorded)
    folders = {path: find_report_folder(path, output, logdir)}
    if against is not None:
        folders[against] = find_report_folder(against, None, None)
    cards = [(one, folders[one][0]) for one in (against, path) if one is not None and one.suffix in CARD_SUFFIXES]
    if cards:
        show_text(f"{', '.join(str(folder) for _, folder in cards)}: what is recorded, and its report")
        record_profiles(cards, given, repeat, naive)
    source, report_folder = folders[path]
    before = None if against is None else read_profile(folders[against][0])
    found, report = read_profile(source)
    show(make_profile_tables(report))
    if report_folder is not None:
        prepare_folder(report_folder)
        show_text(str(write_profile(report_folder, found, report, path.name)[0]))
        if apply:
            with show_progress() as show_count:
                report["applied"] = apply_findings(*measurable, report, report_folder, repeat, show_count)
            write_profile(report_folder, found, report, path.name)
            show_text("\n".join(list_change_lines(report["applied"])))
    if before is not None:
        difference = compare(report, before[1], limit / 100, paired=len(cards) == 2)
        show(make_difference_table(difference))
        sys.exit(AMISS if difference.worse else DONE)


@main.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="By default any that is free.")
def board(run: Path, port: int) -> None:
    """Start TensorBoard on RUN, a run or a log directory, for this machine alone; Ctrl-C ends it."""
    from tfperf.report.board import describe_profiles, find_log_directory, start_server, wait_for_signal

    folder = find_log_directory(run)
    show_text("\n".join([start_server(folder, port), *describe_profiles(folder)]))
    wait_for_signal()
