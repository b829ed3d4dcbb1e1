"""Whether a card and its files are still those that a run began with."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tfperf.errors import CardError, RunDirectoryError
from tfperf.results.rundir import CARD, State
from tfperf.runcard.dump import dump_card
from tfperf.runcard.workloads import WORKLOADS, AnyCard

LEFT_OUT = ("replicas", "profile", "sweep")  # compared elsewhere, or of no weight for the result


def refuse_changed(path: Path, card: AnyCard, hashes: Mapping[str, str], state: State) -> None:
    """RunDirectoryError where the card of the run in `path`, or a file by its sha256, is another one.

    Files are compared by their hashes alone, so that a run may be moved with its data.
    """
    # the given card goes through YAML and back, too, so that both sides went the same way
    old, new = _stored(path / CARD), _comparable(yaml.safe_load(dump_card(card)))
    faults = _differences(old, new) if old != new else []
    changed = [key for key in sorted({*hashes, *state.inputs}) if hashes.get(key) != state.inputs.get(key)]
    faults += [f"{key}: not the file that the run began with" for key in changed]
    if faults:
        raise RunDirectoryError(f"{path / CARD}: the card is not the one that the run began with", *faults)


def refuse_inside(files: Mapping[str, Path], output: Path) -> None:
    """CardError for files, by the keys that name them, that lie in the run directory."""
    inside = [key for key, path in files.items() if path.resolve().is_relative_to(output.resolve())]
    if inside:
        raise CardError(*(f"{k}: {files[k]} lies in the run directory {output}, which may be replaced" for k in inside))


def _stored(path: Path) -> dict[str, Any]:
    try:
        return _comparable(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, AttributeError, KeyError, TypeError, yaml.YAMLError) as error:
        raise RunDirectoryError(f"{path}: damaged: {error}") from None


def _comparable(tree: dict[str, Any]) -> dict[str, Any]:
    """The card's tree without what is compared in another way."""
    for *blocks, key in WORKLOADS[tree.get("workload", "replicas")].files:
        block: Any = tree
        for name in blocks:
            block = (block or {}).get(name)
        if block is not None:
            block.pop(key, None)
    return {key: value for key, value in tree.items() if key not in LEFT_OUT}


def _differences(old: Any, new: Any, key: str = "") -> list[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [k for k in {**old, **new} if old.get(k) != new.get(k)]
        return [line for k in keys for line in _differences(old.get(k), new.get(k), f"{key}.{k}" if key else k)]
    return [f"{key}: got {new}, the run has {old}"]
