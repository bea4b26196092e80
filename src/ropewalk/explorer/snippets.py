"""Copy as: the description that the page shows, as Python, transformers settings, and a command line."""

import json
from functools import lru_cache
from pprint import pformat
from textwrap import indent
from typing import TYPE_CHECKING, Any

from ..errors import RopewalkError
from ..models.targets import read
from ..rope import Rope
from ..scaling import scaling_to_dict

if TYPE_CHECKING:
    from .data import Document


def all_of(seen: "Document", lang: str = "en") -> dict[str, str]:
    """Give every form by its name; each one says the same rope as the page, in a language of the explorer."""
    forms = {"Python": python(seen.rope)}
    settings = transformers(seen.rope)
    if settings is not None:
        forms["transformers"] = settings
    query = seen.state.query()
    forms["link"] = f"/{lang}/{'?' + query if query else ''}\n"
    forms["CLI"] = f'ropewalk explore --get "{forms["link"].rstrip()}"\n'
    return forms


def python(rope: Rope) -> str:
    """Give Python that builds the rope."""
    data = indent(pformat(rope.to_dict(), sort_dicts=False), "    ")
    return f"from ropewalk import Rope\n\nrope = Rope.from_dict(\n{data}\n)\n"


@lru_cache(maxsize=256)
def transformers(rope: Rope) -> str | None:
    """Give settings of transformers 5 with `rope_parameters`, None where they would not read as this rope again.

    The pairing is no setting there but the code of a model's class: Llama's joins halves, Cohere's neighbours.
    """
    if rope.scaling.rope_type == "ntk":  # ropewalk's own name: transformers has no such type
        return None
    parameters: dict[str, Any] = {"rope_theta": rope.rope_theta}
    parameters |= {name: value for name, value in scaling_to_dict(rope.scaling).items() if value is not None}
    parameters.pop("scale_softmax", None)
    if rope.width != rope.head_dim:
        parameters["partial_rotary_factor"] = rope.width / rope.head_dim
    model = "llama" if rope.pairing == "half" else "cohere"
    settings = {"model_type": model, "head_dim": rope.head_dim, "rope_parameters": parameters}
    if rope.max_position_embeddings is not None:
        settings["max_position_embeddings"] = rope.max_position_embeddings
    try:
        again = read(settings).rope
    except RopewalkError:
        return None
    if again is None or again.replace(max_position_embeddings=rope.max_position_embeddings) != rope:
        return None
    return json.dumps(settings, indent=2) + "\n"
