"""Copy as: the description that the page shows, as Python, transformers settings, and a command line."""

import json
from typing import TYPE_CHECKING

from ..rope import Rope
from ..scaling import scaling_to_dict

if TYPE_CHECKING:
    from .data import Document


def all_of(seen: "Document") -> dict[str, str]:
    """Give every form by its name; each one says the same rope as the page."""
    forms = {"Python": python(seen.rope)}
    settings = transformers(seen.rope)
    if settings is not None:
        forms["transformers"] = settings
    forms["CLI"] = command(seen)
    return forms


def python(rope: Rope) -> str:
    """Give Python that builds the rope."""
    data = json.dumps(rope.to_dict(), indent=2).replace("null", "None").replace("true", "True").replace("false", "False")
    return f"from ropewalk import Rope\n\nrope = Rope.from_dict({data})\n"


def transformers(rope: Rope) -> str | None:
    """Give `rope_parameters` of transformers 5, None where it cannot say this rope."""
    scaling = scaling_to_dict(rope.scaling)
    if rope.axes.kind != "single" or scaling["rope_type"] == "ntk" or rope.width % 2 or rope.rotary_start:
        return None
    scaling.pop("scale_softmax", None)
    parameters = {"rope_theta": rope.rope_theta, **{name: value for name, value in scaling.items() if value is not None}}
    if rope.width != rope.head_dim:
        parameters["partial_rotary_factor"] = rope.width / rope.head_dim
    settings = {"head_dim": rope.head_dim, "rope_parameters": parameters}
    if rope.max_position_embeddings is not None:
        settings["max_position_embeddings"] = rope.max_position_embeddings
    return json.dumps(settings, indent=2) + "\n"


def command(seen: "Document") -> str:
    """Give the command that opens this page."""
    query = seen.state.query()
    return f'ropewalk explore --get "/en/{"?" + query if query else ""}"\n'
