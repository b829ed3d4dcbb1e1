"""Summaries as JSON text."""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def as_json(summary: Mapping[str, Any], indent: int | None = None) -> str:
    """The summary as JSON text; NumPy's numbers as plain ones, null for what is not finite: it was not measured."""
    return json.dumps(_plain(summary), ensure_ascii=False, indent=indent, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(v) for v in value]
    number = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(number, float) and not math.isfinite(number) else number
