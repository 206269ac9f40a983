"""A queue with mqueue's API."""

from functools import partial

from ortoo.dialects.mqueue import MQUEUE
from tests.dialects.home import DialectHome as Home
from tests.dialects.home import serving as serve

__all__ = ["Home", "serving"]

serving = partial(serve, Home, MQUEUE)
