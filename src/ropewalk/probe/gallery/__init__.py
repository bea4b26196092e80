"""The gallery: every known fault of RoPE as a few lines of code that run, and the right variants beside them.

>>> from ropewalk.probe.gallery import exhibits
>>> one = exhibits()[0]
>>> one.id, one.slug, one.expect.pairing
('M01a', 'interleaved-for-half', 'half')
"""

from .exhibit import Exhibit, Turn
from .page import rewritten, table, verdict
from .rooms import exhibits

__all__ = ["Exhibit", "Turn", "exhibits", "rewritten", "table", "verdict"]
