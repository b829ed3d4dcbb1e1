"""report.html of a translation as one page without network, and its losses as events."""

import time
from pathlib import Path

import numpy as np

from tfperf.report import numbers
from tfperf.report.numbers import MISSING, count, number, percent
from tfperf.report.page import folded, image, page, paragraph, table, tiles
from tfperf.report.sections import Section, Summary, environment, time_table, write_text
from tfperf.report.tensorboard import write_run
from tfperf.workloads.translate.corpus import LEFT_OUT
from tfperf.workloads.translate.results import Losses, TranslationResult

WAYS = {"greedy": "greedy", "beam": "beam search", "word_by_word": "word by word"}


def write_html(folder: Path, result: TranslationResult) -> None:
    """Write report.html atomically; environment.json and card.yaml of the folder enter it. Raises: StorageError."""
    write_text(folder / "report.html", html(folder, result))


def write_events(folder: Path, history: Losses) -> None:
    """Write the losses at their steps to TensorBoard's runs `training` and `validation`. Raises: StorageError."""
    now, steps = time.time(), np.arange(1, len(history.loss) + 1)
    write_run(folder / "training", steps, {"loss/per_label": history.loss}, now)
    write_run(folder / "validation", history.validation_step, {"loss/per_label": history.validation_loss}, now)


def score_rows(summary: Summary) -> list[tuple[str, str, str]]:
    """Way of translating, BLEU and chrF; n/a without text."""
    scores = summary.get("scores") or {}
    rows = [(WAYS.get(way, way), number(found["bleu"], 2), number(found["chrf"], 2)) for way, found in scores.items()]
    return rows or [("greedy", MISSING, MISSING)]


def html(folder: Path, result: TranslationResult) -> str:
    """The page as text; the same result and folder give the same text."""
    # Matplotlib takes half a second to import: only who writes a report waits for it
    from tfperf.report.style import house_style, to_png
    from tfperf.workloads.translate.plots import losses_figure

    summary = result.summary
    with house_style():
        picture = to_png(losses_figure(result.history))
    caption = "Cross entropy per piece of the translation: of each training batch, and of all validation pairs."
    sections = [
        _scores(summary), _samples(summary), ("losses", "Losses", _losses(summary) + image(picture, caption)),
        _data(summary), _timing(summary), _placement(summary), environment(folder, summary),
    ]  # fmt: skip
    return page(result.title or "tfperf fit", _head(summary), sections)


def _head(summary: Summary) -> str:
    scores, loss = summary.get("scores") or {}, summary.get("loss") or {}
    best = scores.get("beam") or scores.get("greedy") or {}
    text = "A translator trained on sentence pairs: weights of the lowest validation loss, scores of the test part."
    return paragraph(text) + tiles([
        ("BLEU", number(best.get("bleu"), 2)), ("chrF", number(best.get("chrf"), 2)),
        ("validation loss per label", number(loss.get("validation_best"))),
        ("steps", count(summary.get("steps"))), ("words per second", number(summary.get("words_per_second"), 0)),
        ("time", numbers.seconds((summary.get("seconds") or {}).get("total"))),
    ])  # fmt: skip


def _scores(summary: Summary) -> Section:
    body = table(("translated", "BLEU", "chrF"), score_rows(summary))
    if summary.get("scores"):
        text = (
            "Word by word: each word replaced by its likeliest translation in the training pairs (IBM model 1), "
            "the rest as it is. One reference a sentence."
        )
        body += paragraph(text) + table((), list(numbers.flat(summary.get("signatures"))), kind="text")
    else:
        body += paragraph("A synthetic corpus has no text to be scored.")
    share = percent(summary.get("correct_pieces"))
    body += paragraph(f"Pieces of the references that greedy translations have at the same place: {share}.")
    return "scores", "Scores", body


def _samples(summary: Summary) -> Section:
    samples = summary.get("samples") or []
    if not samples:
        return "samples", "Sample translations", paragraph("None.")
    rows = [(one["source"], one["reference"], one["translation"]) for one in samples]
    return "samples", "Sample translations", table(("source", "reference", "translation"), rows, kind="text")


def _losses(summary: Summary) -> str:
    loss = summary.get("loss") or {}
    return table(("loss per label", "first", "last", "lowest"), [
        (
            "training, mean of the steps before a validation",
            number(loss.get("training_first")), number(loss.get("training_last")), "",
        ),
        (
            "validation", number(loss.get("validation_first")), number(loss.get("validation_last")),
            f"{number(loss.get('validation_best'))} after step {count(loss.get('best_step'))}",
        ),
    ])  # fmt: skip


def _data(summary: Summary) -> Section:
    data = summary.get("data") or {}
    pairs = data.get("pairs") or {}
    rows = [
        *((f"{part} pairs", count(pairs.get(part))) for part in ("training", "validation", "test")),
        *(
            (f"{part} pairs left out, longer than {count(data.get('max_length'))} pieces", count(pairs.get(key)))
            for part, key in LEFT_OUT.items()
        ),
        *((f"pieces of the {side}'s vocabulary", count(n)) for side, n in (data.get("vocabulary") or {}).items()),
        ("rows of each table", count(data.get("rows"))), ("parameters", count(data.get("parameters"))),
        ("buckets", str(data.get("buckets", MISSING))), ("pairs per device", count(data.get("batch_per_device"))),
        ("steps an epoch", count(data.get("steps_per_epoch"))),
        ("pairs in no step, an epoch", count(data.get("dropped_per_epoch"))),
        ("padding share", percent(data.get("padding_share"))),
        ("straggler waste", percent(data.get("straggler_waste"))),
        ("steps with unequal lengths", count(data.get("unequal_steps"))),
    ]  # fmt: skip
    text = (
        "Padding share: of all positions, those that hold no piece. Straggler waste: of the devices' time, what is "
        "spent waiting for the longest batch, if time goes with its length. Both of the first epoch."
    )
    return "data", "Sentence pairs and batches", table((), rows, kind="text") + paragraph(text, "soft")


def _timing(summary: Summary) -> Section:
    resumed = summary.get("resumed_from_steps") or []
    body = time_table(summary) + table((), [
        ("per step", numbers.speed(summary)),
        ("words (source and target pieces) per second", number(summary.get("words_per_second"), 0)),
        ("peak memory (resident)", numbers.size(summary.get("peak_rss_bytes"))),
        ("resumed from step", ", ".join(map(str, resumed)) or "not resumed"),
    ], kind="text")  # fmt: skip
    return "time", "Time and memory", body


def _placement(summary: Summary) -> Section:
    placement = summary.get("placement") or {}
    shown = ("engine", "devices", "variables", "embeddings", "slots", "updates")
    body = table((), [
        *((key, str(placement.get(key, MISSING))) for key in shown),
        ("gradients", str(placement.get("merge", MISSING))),
        *((f"on {device}", numbers.size(size)) for device, size in (placement.get("bytes") or {}).items()),
        *numbers.flat(summary.get("engine")),
    ], kind="text")  # fmt: skip
    if placement.get("logical"):
        body += paragraph("The devices are logical CPUs, which share cores.", "soft")
    where = "\n".join(f"{what}: {there}" for what, there in (placement.get("where") or {}).items())
    return "placement", "Placement and engine", body + folded("where each variable and slot lives", where)
