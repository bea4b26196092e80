"""What a function does besides turning: to its input, to dtypes, to gradients, to its own later answers."""

import numpy as np

from ..pairs import Pairs
from ._caller import Caller, by_head, gap, transposed, turned, vectors
from ._evidence import Evidence
from .box import Box, BoxFailure

HALF = ("bfloat16", "float16")


def facts(caller: Caller) -> list[Evidence]:
    """Tell what the box has seen on the way: an overwritten input, and answers that change by themselves."""
    seen = caller.box.facts
    words, right = seen.get("mutated"), "the input untouched"
    evidence = [Evidence(name="input-mutated", ok=words is None, seen=words or "untouched", right=right)]
    for name, fact in (("random", "random"), ("keeps-state", "state")):
        words = seen.get(fact)
        evidence.append(
            Evidence(name=name, ok=words is None, seen=words or "equal", right="equal calls give equal answers")
        )
    return evidence


def dtypes(caller: Caller) -> list[Evidence]:
    """Ask in half precision, where the library has it, and look at the dtype that comes back."""
    right = "the dtype of the input"
    changed = {caller.box.dtype: caller.box.facts["dtype"]} if "dtype" in caller.box.facts else {}
    tried = [caller.box.dtype]
    for dtype in HALF if caller.box.library in ("torch", "jax") else ():
        if dtype == caller.box.dtype:
            continue
        box = caller.box.with_(dtype=dtype)
        ids = np.array(np.broadcast_to(np.arange(3), (caller.axes, caller.batch, 3)))
        try:
            box.turn(vectors((caller.batch, 3, caller.heads, box.head_dim)), caller.shape(ids))
        except BoxFailure:
            continue  # a function may be made for one dtype
        tried.append(dtype)
        if "dtype" in box.facts:
            changed[dtype] = box.facts["dtype"]
    evidence = []
    for name, some in (("float32-out", HALF), ("dtype", ("float32", "float64"))):
        hits = {dtype: words for dtype, words in changed.items() if dtype in some}
        # NumPy's own promotion: more digits, no harm
        widened = name == "dtype" and caller.box.library == "numpy" and all("64 out" in one for one in hits.values())
        detail = {"changed": hits, **({"note": "NumPy widens"} if hits and widened else {})}
        seen = "; ".join(hits.values()) or f"kept ({', '.join(tried)})"
        evidence.append(Evidence(name=name, ok=not hits or widened, seen=seen, right=right, detail=detail))
    return evidence


def gradient(caller: Caller, pairs: Pairs, offset: float) -> Evidence | None:
    """Compare the gradient with the transpose of the rotation; None where there are no gradients to ask for."""
    name, right = "gradient-wrong", "turned back by the same angles (the transpose)"
    tokens = np.array([1, 5, 3, 9])
    ids = np.array(np.broadcast_to(tokens, (caller.axes, caller.batch, 4)))
    shape = (caller.batch, 4, caller.heads, caller.box.head_dim)
    x, grad = vectors(shape, 5), vectors(shape, 6)
    try:
        out = caller.box.gradient(x, caller.shape(ids), caller.given_order(grad))
    except BoxFailure as failure:
        missing = failure.failure.kind == "raised"
        seen = f"no gradient: {failure.failure.message}"
        return Evidence(name=name, ok=not missing, seen=seen, right=right, detail={"how": "missing"})
    if out is None:
        return None
    positions = by_head(ids + offset, caller.heads)
    wanted = transposed(grad, pairs, positions)
    others = {
        "forward": ("turned forward, as the vectors were", turned(grad, pairs, positions)),
        "untouched": ("handed on unturned", grad),
        "zero": ("zero", np.zeros_like(grad)),
    }
    near = 0.02 + 8 * caller.box.resolution
    detail = {"gap": gap(out, wanted)}
    if detail["gap"] <= near:
        return Evidence(name=name, ok=True, seen="the transpose", right=right, detail=detail)
    how = next((how for how, (_, other) in others.items() if gap(out, other) <= near), "other")
    words = others[how][0] if how in others else f"off by {detail['gap']:.3g}"
    return Evidence(name=name, ok=False, seen=words, right=right, detail={**detail, "how": how})


def other_heads(box: Box) -> Box | None:
    """Give the same box with the number of key heads, where that is another."""
    return box.with_(heads=box.kv_heads) if box.kv_heads not in (None, box.heads) else None
