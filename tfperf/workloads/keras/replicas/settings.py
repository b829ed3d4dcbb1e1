"""What a card asks of an ensemble, for its report."""

from collections.abc import Mapping, Sequence
from typing import Any

from tfperf.report.numbers import format_figure
from tfperf.workloads.keras.card import KerasCard
from tfperf.workloads.keras.replicas.outcome import STOPPED
from tfperf.workloads.keras.replicas.template import ModelTemplate


def describe_settings(card: KerasCard, template: ModelTemplate) -> dict[str, Any]:
    """For report.json. A learning rate is a number, one for each replica, or None: what the optimizer itself makes."""
    ensemble, rate = card.ensemble, card.ensemble.learning_rate
    if rate is None and (name := template.find_learning_rate()) is not None:
        rate = float(template.initial[name])
    return {
        "seed": card.seed, "data": ensemble.data if isinstance(ensemble.data, str) else "masks",
        "epochs": card.train.epochs, "batch": template.batch, "patience": ensemble.patience,
        "learning_rate": rate, "loss_weight": ensemble.loss_weight, "callbacks": len(card.train.callbacks),
    }  # fmt: skip


def list_settings(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Rows of a table; what few cards ask for is left out where it was not."""
    rate, weight, patience = (settings[name] for name in ("learning_rate", "loss_weight", "patience"))
    data = {"all": "all samples", "bootstrap": "bootstrap: as many, drawn with replacement", "masks": "by masks"}
    return [
        ("seed", str(settings["seed"])),
        ("training samples of each replica", data[settings["data"]]),
        ("epochs at most", str(settings["epochs"])),
        ("batch, samples", str(settings["batch"])),
        ("patience, validations", "none" if patience is None else str(patience)),
        ("learning rate at the start", "by the optimizer's schedule" if rate is None else _format_each(rate)),
        *([] if weight is None else [("weight of the samples' loss", _format_each(weight))]),
        *([("callbacks of each replica", str(settings["callbacks"]))] if settings["callbacks"] else []),
    ]


def _format_each(values: float | Sequence[float]) -> str:
    if isinstance(values, int | float):
        return format_figure(values)
    return f"{format_figure(min(values))} to {format_figure(max(values))}, one for each replica"


def name_status(status: str, settings: Mapping[str, Any]) -> str:
    """How a replica ended, for readers; settings: those of the report, empty of one that has none.

    >>> name_status("stopped", {"patience": 4, "callbacks": 0}), name_status("all_epochs", {})
    ('stopped early (patience 4)', 'all epochs')
    """
    if status != STOPPED:
        return status.replace("_", " ")
    by = [f"patience {settings['patience']}"] if settings.get("patience") else []
    by += ["by a callback"] if settings.get("callbacks") else []
    return f"stopped early ({' or '.join(by)})" if by else "stopped early"
