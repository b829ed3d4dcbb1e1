"""report.html of a translation as one page without network, and its losses as events."""

import time
from pathlib import Path

import numpy as np

from tfperf.report import numbers
from tfperf.report.numbers import MISSING, format_count, format_number, format_percent
from tfperf.report.page import render_details, render_image, render_page, render_paragraph, render_table, render_tiles
from tfperf.report.sections import Section, Summary, render_environment, render_time_table, write_text
from tfperf.report.tensorboard import write_run
from tfperf.workloads.translate.corpus import LEFT_OUT
from tfperf.workloads.translate.results import LossHistory, TranslationResult

WAYS = {"greedy": "greedy", "beam": "beam search", "word_by_word": "word by word"}


def write_html(folder: Path, result: TranslationResult) -> None:
    """Write report.html atomically; environment.json and card.yaml of the folder enter it. Raises: StorageError."""
    write_text(folder / "report.html", render_html(folder, result))


def write_events(folder: Path, history: LossHistory) -> None:
    """Write the losses at their steps to TensorBoard's runs `training` and `validation`. Raises: StorageError."""
    now, steps = time.time(), np.arange(1, len(history.loss) + 1)
    write_run(folder / "training", steps, {"loss/per_label": history.loss}, now)
    write_run(folder / "validation", history.validation_step, {"loss/per_label": history.validation_loss}, now)


def format_scores(summary: Summary) -> list[tuple[str, str, str]]:
    """Way of translating, BLEU and chrF; n/a without text."""
    scores = summary.get("scores") or {}
    rows = [(WAYS.get(way, way), format_number(x["bleu"], 2), format_number(x["chrf"], 2)) for way, x in scores.items()]
    return rows or [("greedy", MISSING, MISSING)]


def render_html(folder: Path, result: TranslationResult) -> str:
    """The page as text; the same result and folder give the same text."""
    # Matplotlib takes half a second to import: only who writes a report waits for it
    from tfperf.report.style import apply_style, to_png
    from tfperf.workloads.translate.plots import draw_losses

    summary = result.summary
    with apply_style():
        picture = to_png(draw_losses(result.history))
    caption = "Cross entropy per piece of the translation: of each training batch, and of all validation pairs."
    losses = _render_losses(summary) + render_image(picture, caption)
    sections = [
        _render_scores(summary), _render_samples(summary), ("losses", "Losses", losses), _render_data(summary),
        _render_timing(summary), _render_placement(summary), render_environment(folder, summary),
    ]  # fmt: skip
    return render_page(result.title or "tfperf fit", _render_head(summary), sections)


def _render_head(summary: Summary) -> str:
    scores, loss = summary.get("scores") or {}, summary.get("loss") or {}
    best = scores.get("beam") or scores.get("greedy") or {}
    text = "A translator trained on sentence pairs: weights of the lowest validation loss, scores of the test part."
    return render_paragraph(text) + render_tiles([
        ("BLEU", format_number(best.get("bleu"), 2)), ("chrF", format_number(best.get("chrf"), 2)),
        ("validation loss per label", format_number(loss.get("validation_best"))),
        ("steps", format_count(summary.get("steps"))),
        ("words per second", format_number(summary.get("words_per_second"), 0)),
        ("time", numbers.format_seconds((summary.get("seconds") or {}).get("total"))),
    ])  # fmt: skip


def _render_scores(summary: Summary) -> Section:
    body = render_table(("translated", "BLEU", "chrF"), format_scores(summary))
    if summary.get("scores"):
        body += render_paragraph(
            "Word by word: each word replaced by its likeliest translation in the training pairs (IBM model 1), "
            "the rest as it is. One reference a sentence."
        )
        body += render_table((), list(numbers.list_leaves(summary.get("signatures"))), kind="text")
    else:
        body += render_paragraph("A synthetic corpus has no text to be scored.")
    share = format_percent(summary.get("correct_pieces"))
    body += render_paragraph(f"Pieces of the references that greedy translations have at the same place: {share}.")
    return "scores", "Scores", body


def _render_samples(summary: Summary) -> Section:
    samples = summary.get("samples") or []
    if not samples:
        return "samples", "Sample translations", render_paragraph("None.")
    rows = [(one["source"], one["reference"], one["translation"]) for one in samples]
    return "samples", "Sample translations", render_table(("source", "reference", "translation"), rows, kind="text")


def _render_losses(summary: Summary) -> str:
    loss = summary.get("loss") or {}
    return render_table(("loss per label", "first", "last", "lowest"), [
        ("training, mean of the steps before a validation",
         format_number(loss.get("training_first")), format_number(loss.get("training_last")), ""),
        ("validation", format_number(loss.get("validation_first")), format_number(loss.get("validation_last")),
         f"{format_number(loss.get('validation_best'))} after step {format_count(loss.get('best_step'))}"),
    ])  # fmt: skip


def _render_data(summary: Summary) -> Section:
    data = summary.get("data") or {}
    pairs = data.get("pairs") or {}
    rows = [
        *((f"{role} pairs", format_count(pairs.get(role))) for role in ("training", "validation", "test")),
        *((f"{role} pairs left out, longer than {format_count(data.get('max_length'))} pieces",
           format_count(pairs.get(key))) for role, key in LEFT_OUT.items()),
        *((f"pieces of the {side}'s vocabulary", format_count(size))
          for side, size in (data.get("vocabulary") or {}).items()),
        ("rows of each table", format_count(data.get("rows"))), ("parameters", format_count(data.get("parameters"))),
        ("buckets", str(data.get("buckets", MISSING))),
        ("pairs per device", format_count(data.get("batch_per_device"))),
        ("steps an epoch", format_count(data.get("steps_per_epoch"))),
        ("pairs in no step, an epoch", format_count(data.get("dropped_per_epoch"))),
        ("padding share", format_percent(data.get("padding_share"))),
        ("straggler waste", format_percent(data.get("straggler_waste"))),
        ("steps with unequal lengths", format_count(data.get("unequal_steps"))),
    ]  # fmt: skip
    text = (
        "Padding share: of all positions, those that hold no piece. Straggler waste: of the devices' time, what is "
        "spent waiting for the longest batch, if time goes with its length. Both of the first epoch."
    )
    return "data", "Sentence pairs and batches", render_table((), rows, kind="text") + render_paragraph(text, "soft")


def _render_timing(summary: Summary) -> Section:
    resumed = summary.get("resumed_from_steps") or []
    body = render_time_table(summary) + render_table((), [
        ("per step", numbers.format_speed(summary)),
        ("words (source and target pieces) per second", format_number(summary.get("words_per_second"), 0)),
        ("peak memory (resident)", numbers.format_bytes(summary.get("peak_rss_bytes"))),
        ("resumed from step", ", ".join(map(str, resumed)) or "not resumed"),
    ], kind="text")  # fmt: skip
    return "time", "Time and memory", body


def _render_placement(summary: Summary) -> Section:
    placement = summary.get("placement") or {}
    keys = ("engine", "devices", "variables", "embeddings", "slots", "updates")
    body = render_table((), [
        *((key, str(placement.get(key, MISSING))) for key in keys),
        ("gradients", str(placement.get("merge", MISSING))),
        *((f"on {device}", numbers.format_bytes(size)) for device, size in (placement.get("bytes") or {}).items()),
        *numbers.list_leaves(summary.get("engine")),
    ], kind="text")  # fmt: skip
    if placement.get("logical"):
        body += render_paragraph("The devices are logical CPUs, which share cores.", "soft")
    where = "\n".join(f"{what}: {there}" for what, there in (placement.get("where") or {}).items())
    return "placement", "Placement and engine", body + render_details("where each variable and slot lives", where)
