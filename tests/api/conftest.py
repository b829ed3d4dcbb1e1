import pytest


@pytest.fixture(autouse=True)
def _brief_fits(brief_fits):
    """No test of this folder looks at milliseconds, or at the curves of a page."""
