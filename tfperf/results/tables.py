"""Records as tables of pandas, which is optional."""

from collections.abc import Mapping, Sequence
from typing import Any

from tfperf.errors import UserError


def make_frame(columns: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]) -> Any:
    """A pandas.DataFrame of columns, or of rows. Raises: UserError where pandas is not installed."""
    try:
        import pandas
    except ImportError:
        raise UserError('pandas is not installed; pip install "tfperf[tables]"') from None
    return pandas.DataFrame(columns)
