"""Plain YAML scalars as YAML 1.2 reads them, both ways: 1e-4 is a number, yes and 2024-01-31 are text.

Integers with leading zeros, 0x or 0o stay text: YAML 1.1 and 1.2 disagree on them, so a card must not depend on it.
"""

import re
from typing import Any

import yaml

Scalar = str | int | float | bool | None

NULL = re.compile(r"~|null|Null|NULL|")
BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
FLOAT = re.compile(
    r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
MAX_DIGITS = 100


def parse_scalar(text: str) -> Scalar:
    """The value of an unquoted scalar.

    >>> [parse_scalar(text) for text in ("1e-4", "12", "true", "yes", "~", "2024-01-31", "007")]
    [0.0001, 12, True, 'yes', None, '2024-01-31', '007']
    """
    if NULL.fullmatch(text):
        return None
    if BOOL.fullmatch(text):
        return text.lower() == "true"
    if len(text) <= MAX_DIGITS and INT.fullmatch(text):
        return int(text)
    if len(text) <= MAX_DIGITS and FLOAT.fullmatch(text):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text


class _Dumper(yaml.SafeDumper):
    """Quotes what YAML 1.1 or 1.2 would not read back as text, so that every reader agrees; short lists on one line."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_list(dumper: yaml.SafeDumper, value: list[Any]) -> yaml.SequenceNode:
    flow = not any(isinstance(v, dict | list) for v in value)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=flow)


for _kind, _pattern in (("null", NULL), ("bool", BOOL), ("int", INT), ("float", FLOAT)):
    _Dumper.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", re.compile(f"({_pattern.pattern})\\Z"), None)
_Dumper.add_representer(list, _represent_list)


def dump(tree: Any, width: int = 110) -> str:
    """YAML text of plain values (dict, list, text, numbers, booleans, None) that reads back as the same values.

    >>> print(dump({"title": "no", "layers": [25, 20], "rate": 1e-4}), end="")
    title: 'no'
    layers: [25, 20]
    rate: 0.0001
    """
    return yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=width)


def dump_inline(value: Any) -> str:
    """The same on one line.

    >>> dump_inline({"from": 1, "to": 4}), dump_inline("yes")
    ('{from: 1, to: 4}', "'yes'")
    """
    text: str = yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=True, width=10**6
    )
    return text.removesuffix("...\n").strip()
