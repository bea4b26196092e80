"""extend(): a longer context for a rope, by every method."""

from .._checks import MAX_POSITION, choice, whole
from ..errors import RopewalkError
from .angles import divisors, full_turns, kinds, leaving, short_prompts, speeds
from .bases import Bases, base_rules, checked_theta
from .evidence import EVIDENCE, RELEASED, is_scaled, recommend, released
from .methods import Built, build
from .plan import METHODS, Magnitude, Method, Plan, Refusal
from .support import engines, settings
from .targets import Chosen, choose, trained_length, unscaled


def extend(
    target: object,
    to: int,
    *,
    method: str = "all",
    trained: int | None = None,
    theta: float | None = None,
    part: str | None = None,
    layer: int | None = None,
) -> Plan:
    """Plan a longer context: for each method the new rope, what it does to the pairs, and who can run it.

    Nothing is stacked: a rope that is scaled already is planned from the length trained before that scaling.

    Args:
        target: a Rope, or whatever `read` takes; of a model with local and global layers the global rope is planned.
        to: tokens wished, above the trained length.
        method: "all", or one of METHODS; "untouched" is always there beside it.
        trained: L0, tokens; None takes original_max_position_embeddings, or max_position_embeddings where nothing is
            scaled.
        theta: a base whose context is told beside the plan; None takes the rope's own.
        part: one part of a model; None takes the text part.
        layer: the layer whose rope is meant, where a model has several.

    Raises:
        RopewalkError: for a target without RoPE, or one whose positions are no tokens; a trained length that is not
            stated; a wish at or below it; or one method that cannot be planned.

    >>> from ropewalk import Rope
    >>> rope = Rope(head_dim=128, rope_theta=10000.0, pairing="half", max_position_embeddings=4096)
    >>> plan = extend(rope, 32768, method="yarn")
    >>> yarn = plan.method("yarn")
    >>> len(yarn.kept), len(yarn.blended), len(yarn.stretched), yarn.leaves_at
    (21, 25, 18, None)
    >>> plan.method("untouched").leaves_at
    Leaving(position=4096, pair=46)
    """
    choice("method", method, ("all", *METHODS))
    chosen = choose(target, part, layer)
    to = whole("to", to, at_least=1, at_most=MAX_POSITION)
    length, trained_from = trained_length(chosen.rope, trained)
    if to <= length:
        raise RopewalkError(
            f"to must be above the trained length, got to={to} and {length} trained tokens ({trained_from}): the model "
            "needs no stretching there. Ask for more tokens, or correct the trained length with --trained N."
        )
    theta = None if theta is None else checked_theta(theta)
    built = {name: build(name, chosen, length, to) for name in METHODS}
    asked = METHODS if method == "all" else tuple(dict.fromkeys(("untouched", method)))
    refused = tuple(one for name in asked if isinstance(one := built[name], Refusal))
    if method != "all" and refused:
        raise RopewalkError(f"{method} cannot be planned for {chosen.target}: {refused[0].reason}")
    methods = (one for name in asked if isinstance(one := built[name], Built))
    available = {name for name, one in built.items() if isinstance(one, Built)}
    plain = speeds(unscaled(chosen.rope, length))
    return Plan(
        target=chosen.target,
        place=chosen.place,
        part=chosen.part,
        rope=chosen.rope,
        trained=length,
        trained_from=trained_from,
        to=to,
        full_turns=int(full_turns(plain, length).sum()),
        methods=tuple(_method(one, chosen, length, to) for one in methods),
        refused=refused,
        bases=_bases(chosen, length, to, theta),
        recommendation=recommend(chosen, available, length, to),
        caveats=(*_length_caveats(chosen, trained_from, length, to), *chosen.caveats),
    )


def read_bases(
    target: object,
    *,
    theta: float | None = None,
    to: int | None = None,
    trained: int | None = None,
    part: str | None = None,
    layer: int | None = None,
) -> Bases:
    """Tell which context a base supports, and which base a context asks for, without planning anything.

    Args:
        target: as for `extend`.
        theta: the base; None takes the rope's own.
        to: tokens wished, or None.
        trained: L0, as for `extend`.
        part: as for `extend`.
        layer: as for `extend`.

    Raises:
        RopewalkError: as for `extend`.

    >>> [rule.context for rule in read_bases("llama-2-7b", theta=1e6).rules]
    [381162, 129026, 27115]
    """
    chosen = choose(target, part, layer)
    length, _ = trained_length(chosen.rope, trained)
    to = None if to is None else whole("to", to, at_least=1, at_most=MAX_POSITION)
    return _bases(chosen, length, to, None if theta is None else checked_theta(theta))


def _bases(chosen: Chosen, trained: int, to: int | None, theta: float | None) -> Bases:
    return base_rules(chosen.rope, trained, to=to, theta=theta, whole_head=not chosen.scales_softmax)


def _method(built: Built, chosen: Chosen, trained: int, to: int) -> Method:
    plain = unscaled(chosen.rope, trained)
    slowed = divisors(speeds(plain), speeds(built.rope, to))
    sorted_pairs = kinds(slowed, built.full)
    pairs = built.rope.pairs(to)
    evidence = EVIDENCE[built.name]
    written, unwritten = settings(chosen, built.rope)
    return Method(
        name=built.name,
        rope=built.rope,
        **sorted_pairs,
        divisors=slowed,
        magnitude=Magnitude(pairs.cos_sin_factor, pairs.softmax_factor),
        leaves_at=leaving(built.rope, speeds(plain), trained, to),
        short_prompts=short_prompts(built.rope, chosen.rope, trained),
        engines=engines(chosen, built.rope, plain, trained, to),
        settings=written,
        unwritten=unwritten,
        how=built.how,
        notes=built.notes,
        evidence=RELEASED if built.name == "untouched" and released(chosen, to) else evidence.words,
        sources=evidence.sources,
    )


def _length_caveats(chosen: Chosen, trained_from: str, trained: int, to: int) -> list[str]:
    own, longest = chosen.rope.scaling, chosen.rope.max_position_embeddings
    said = []
    if is_scaled(chosen):
        said.append(
            f"The rope already has {own.rope_type} scaling. Every method but untouched starts from the {trained} "
            "tokens before it and replaces it; a second scaling on top of the first would slow pairs twice. "
            "Training at the stretched length, if there was any, has shown the pairs more than this plan counts."
        )
    elif trained_from == "max_position_embeddings" and longest is not None:
        said.append(
            "The trained length is taken from max_position_embeddings, which is what the configuration admits and need "
            "not be what was trained: --trained N says it."
        )
    if to > 2**24:
        said.append("Positions beyond 16,777,216 are not exact in float32: most engines cannot turn by them.")
    return said
