"""Pictures that several test files look at."""

import pytest


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A few small ones, of both parts."""
    from tfperf.zoo.photos_folder import PhotoSettings, make_photos

    made = tmp_path_factory.mktemp("photos")
    make_photos(made, PhotoSettings(count=39, smallest=64, largest=90))
    return str(made)
