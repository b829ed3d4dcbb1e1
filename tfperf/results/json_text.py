"""Summaries as JSON text."""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def to_json(summary: Mapping[str, Any], indent: int | None = None) -> str:
    """The summary as JSON text; NumPy's numbers as plain ones, null for what is not finite: it was not measured.

    >>> to_json({"ms": np.float32(1.5), "ids": (1, 2), "bound": float("nan")})
    '{"ms": 1.5, "ids": [1, 2], "bound": null}'
    """
    return json.dumps(_to_plain(summary), ensure_ascii=False, indent=indent, allow_nan=False)


def _to_plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _to_plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [_to_plain(v) for v in value]
    number = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(number, float) and not math.isfinite(number) else number
