"""Fit ensembles of small networks to data through linear operators, as fast as the machine allows."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfperf.runs.fit import fit as fit

__version__ = "0.1.0"
__all__ = ["fit"]


def __getattr__(name: str) -> Any:
    """Load the verbs on first use, so that `import tfperf` stays free of TensorFlow."""
    if name == "fit":
        from tfperf.runs.fit import fit

        return fit
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
