import pytest

from tfperf.report import style


@pytest.fixture(autouse=True, scope="session")
def _small_pictures():
    """Coarse pictures: the tests look at what is drawn, not at pixels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style, "DPI", 30)
        yield
