"""Live pieces of the lessons: drawn by the server, still without JavaScript, with ordinary controls."""

from collections.abc import Mapping

from ._piece import Piece
from .attention import ATTENTION, PERMUTE
from .codes import CODES
from .measured import MEASURED
from .odometer import ODOMETER
from .products import PRODUCTS
from .sinusoids import SINUSOIDS
from .sparse import SPARSE
from .stretch import STRETCH

__all__ = ["PIECES", "Piece"]

PIECES: Mapping[str, Piece] = {
    piece.name: piece for piece in (ATTENTION, SINUSOIDS, PERMUTE, PRODUCTS, ODOMETER, SPARSE, CODES, STRETCH, MEASURED)
}
