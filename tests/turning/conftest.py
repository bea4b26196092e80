"""The roads: every test that takes one runs on NumPy and torch, by the kernel and without it."""

import pytest

from ._cases import ROADS, open_road


@pytest.fixture(params=ROADS)
def road(request):
    with open_road(request.param) as opened:
        yield opened
