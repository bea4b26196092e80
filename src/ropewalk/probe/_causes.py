"""What each verdict usually comes from in code, and what it does to a model: (the likely mistake, the effect)."""

_SILENT = "shapes match and nothing raises"
_FLUENT = f"silent: {_SILENT}; text is fluent and unrelated to the prompt"
_GROWS = "silent; zero at position 0 and growing with the position, so short prompts read well and long ones drift"
_BEYOND = "silent up to the trained length; beyond it the model falls apart"

CAUSES: dict[str, tuple[str, str]] = {
    "interleaved-for-half": (
        "the rotation pairs neighbours (x[..., ::2], x[..., 1::2]) where the weights want halves "
        "(x[..., :R/2], x[..., R/2:]), or the reverse; or the weights were not permuted when they were converted",
        _FLUENT,
    ),
    "hybrid-repeat": (
        "the table was doubled with repeat_interleave and then used with rotate_half: use cat((freqs, freqs), -1)",
        f"{_SILENT}; lengths and scores change with the absolute position, so that training is flat",
    ),
    "hybrid-tile": (
        "the table was doubled with cat((freqs, freqs), -1) and then used with an adjacent rotation: use "
        "repeat_interleave(2, -1)",
        f"{_SILENT}; scores depend on absolute positions (V-JEPA 2 was trained so: declare it with hybrid_tile)",
    ),
    "conjugate": (
        "the sine has the other sign: cat((x2, -x1)) for cat((-x2, x1)), or a conjugated complex table",
        "scores are consistent in a model trained so; weights trained the usual way give noise",
    ),
    "tables-as-angles": (
        "finished cos and sin tables were handed to code that takes angles, and takes their cos and sin again",
        "position 0 is not the identity and vectors shrink; scores carry no usable distance",
    ),
    "cos-sin-swapped": (
        "cos and sin are exchanged: unpacked as sin, cos, or stored as cat((sin, cos))",
        "position 0 turns by a quarter and the direction is reversed; weights trained the usual way give noise",
    ),
    "partner-of-full-head": (
        "rotate_half splits the whole head (x.shape[-1] // 2) where it should split the rotated part",
        f"{_SILENT}; most channels are turned with the wrong partner",
    ),
    "leading-for-tail": (
        "x[..., :R] is sliced where the model rotates x[..., -R:], or the reverse",
        _FLUENT,
    ),
    "full-for-partial": (
        "partial_rotary_factor (rotary_pct, rotary_dim) is not read, so that the whole head turns",
        _FLUENT,
    ),
    "partial-twice": (
        "partial_rotary_factor is applied by the config's reader and once more by the layer",
        _FLUENT,
    ),
    "proportional-for-ordinary": (
        "partial_rotary_factor has two meanings: ordinary pairs (i, i + R/2) with the exponent over R, proportional "
        "pairs (i, i + D/2) with the exponent over D; the other one is used",
        _FLUENT,
    ),
    "exponent-over-head": (
        "the exponent is divided by head_dim where it should be divided by rotary_dim",
        _GROWS,
    ),
    "exponent-without-2": (
        "arange(R/2) / R for arange(0, R, 2) / R in the exponent: the 2 of θ^(-2i/R) is lost",
        _GROWS,
    ),
    "wrong-theta": (
        "rope_theta is not read from where this file keeps it, and a default (10000) or another model's value is used",
        _GROWS,
    ),
    "unscaled": (
        "the scaling block of the config is not read, or its result is computed and not used",
        f"{_GROWS}; worst beyond the original length",
    ),
    "factor-pinned": (
        "the factor is a constant in the code and not the config's",
        _GROWS,
    ),
    "llama3-precedence": (
        "a missing bracket: 1/(1-t)*s + t for 1/((1-t)/s + t)",
        "silent; the pairs of the middle band turn far too slowly, so that medium distances blur",
    ),
    "llama3-ramp-in-wavelength": (
        "the ramp runs over the wavelength where it should run over the frequency, or backwards",
        "silent; the pairs of the middle band are off, so that medium distances blur",
    ),
    "yarn-rounded": (
        "the ramp's bounds are rounded although truncate is false, or not rounded although it is true",
        "silent; a few pairs of the ramp are off by tens of per cent, log-probabilities drift with the position",
    ),
    "yarn-clamp-half": (
        "the ramp's upper bound is clamped to R/2 - 1 where the authors clamp to R - 1",
        "silent; the slow pairs are slowed too much",
    ),
    "yarn-ramp-inverted": (
        "the ramp is the mask and not its complement: fast pairs are interpolated and slow ones kept",
        "silent; nearby tokens blur at once and long distances are out of range",
    ),
    "yarn-factor-in-power": (
        "the factor stands inside the power, (s·θ)^x for s·θ^x",
        "silent; pair 0 is not scaled and the slow pairs are scaled far too much",
    ),
    "yarn-ntk-base": (
        "the kept branch is built from a stretched base where YaRN keeps the plain frequencies",
        "silent; the fast pairs, which order neighbours, are off",
    ),
    "magnitude-missing": (
        "attention_scaling is computed and not multiplied into cos and sin (nor into the softmax scale)",
        "silent; attention is softer than trained, the worse the larger the factor",
    ),
    "magnitude-twice": (
        "attention_scaling is multiplied into the table and once more by the caller, or into channels that do not turn",
        "silent; attention is sharper than trained",
    ),
    "dynamic-frozen": (
        "the base is computed once, for the longest sequence, and not for the length at hand",
        "silent; short prompts are degraded from the first token",
    ),
    "dynamic-sticky": (
        "the base grows with a long sequence and is not reset by a short one",
        "silent; answers depend on what the process has seen before",
    ),
    "longrope-long-always": (
        "the long list of factors is taken whatever the length",
        "silent; short prompts are degraded from the first token",
    ),
    "longrope-off-by-one": (
        "length < original for length <= original at the switch, or an index one off where two tables are joined",
        "wrong at one length alone: the prompt that exactly fills the original window",
    ),
    "ids-ignored": (
        "arange(seq_len) is used and position_ids are not read",
        "silent; cached decoding, packed sequences and left padding are wrong, a plain prompt is right",
    ),
    "stale-table": (
        "the key of the table's cache lacks the offset, the positions or theta: an earlier call's table is used again",
        "silent; the first call is right and a later one is not",
    ),
    "head-axis": (
        "the axes of sequence and heads are exchanged: [B, H, S, D] is handled as [B, S, H, D], or the reverse",
        f"silent: {_SILENT}; tokens of all positions are turned alike",
    ),
    "row-0-only": (
        "the kernel's grid, or a [0] index, ignores the batch when a row has one token",
        "silent; batched decoding is garbage for every row but the first",
    ),
    "double-rotation": (
        "q and k are turned by the layer and once more by the attention (or cached keys are turned again at each step)",
        _GROWS,
    ),
    "identity": (
        "the turned tensors are not the ones that are used, or every angle is zero",
        "silent; the model sees a bag of words",
    ),
    "window-constant": (
        "the offset of a call is broadcast over its tokens: start for start + arange(tokens)",
        "silent; one-token decoding is right, windows of several tokens (speculative decoding, prefill) are not",
    ),
    "table-end-clamped": (
        "positions beyond the table are clamped to its last row (or wrap round) where it should grow or raise",
        _BEYOND,
    ),
    "first-head-only": (
        "the rotation reaches one head: a slice, or a kernel's grid that leaves the heads out",
        f"silent: {_SILENT}; the other heads know no order",
    ),
    "bf16-frequencies": (
        "inv_freq is a buffer that .to(bfloat16) casts, or is computed in bfloat16: keep it in float32 and out of the "
        "module's state",
        "silent; radians off within a short prompt, growing with the position",
    ),
    "bf16-positions": (
        "positions are cast to the model's dtype: bfloat16 holds whole numbers to 256",
        "silent; from position 257 on neighbours share a position",
    ),
    "fp16-angles": (
        "the product of position and frequency is computed in float16",
        "silent; growing with the position, and infinite beyond 65504 radians",
    ),
    "tf32-product": (
        "the angles come from a matrix product that runs in TF32 (ten bits): multiply elementwise",
        "silent; on some devices only; growing with the position",
    ),
    "sine-unreduced": (
        "a fast sine without range reduction: reduce the angle in higher precision first",
        "right in short contexts; noise at angles beyond some ten thousand radians",
    ),
    "mrope-chunked": (
        "the sections are dealt out in chunks where the model interleaves them, or the reverse",
        "text is right, images and video are not",
    ),
    "axes-swapped": (
        "the rows of the three-dimensional positions are in another order, or one of them is not used",
        "text and square images may look right, others are not",
    ),
    "input-mutated": (
        "the rotation writes into views of its input (x1.mul_(), out=, chunk and in-place operators)",
        "whoever reads q or k afterwards, backward included, reads other numbers",
    ),
    "float32-out": (
        "float32 tables promote the product: cast the result back with .to(x.dtype)",
        "everything after the rotation runs in float32, or a kernel refuses it",
    ),
    "gradient-wrong": (
        "a hand-written backward is missing or turns forward: it has to turn by the negative angle",
        "inference is right and training is not",
    ),
    "raised": ("", "nothing could be measured from there on"),
    "hang": ("", "nothing could be measured from there on"),
    "shape": ("the layout may be another one than was stated", "nothing could be measured from there on"),
    "type": ("the function gives back something else than x turned", "nothing could be measured from there on"),
    "device": ("tables stay on the device where they were made", "a mismatch on the first call elsewhere"),
    "not-finite": (
        "an unfilled buffer, an overflow in half precision, or a division by zero",
        "NaN spreads through the whole sequence",
    ),
    "random": ("dropout, noise or uninitialised memory inside", "no answer can be repeated"),
    "keeps-state": ("a counter or a cache inside the function", "answers depend on what was asked before"),
    "nonlinear": (
        "something besides a rotation: a normalisation, an added embedding, a clamp",
        "scores do not depend on distances alone",
    ),
    "not-a-rotation": (
        "a sign or an index of the rotation is wrong (rotate_half without its minus, two columns mixed)",
        "lengths are not kept and scores depend on absolute positions",
    ),
    "reflection": (
        "both rows of the rotation carry the same sign pattern: (c, s; s, -c) for (c, -s; s, c)",
        "scores depend on the sum of positions, not on their distance",
    ),
    "pairs-differ": ("channels are sliced or reshaped in another way than declared", _FLUENT),
    "frequencies-differ": ("the frequencies come from another rule than declared", _GROWS),
    "magnitude-wrong": (
        "another formula for the factor on cos and sin than declared",
        "silent; attention is softer or sharper than trained",
    ),
    "positions-misread": (
        "position_ids are broadcast along another axis than meant, sorted, or taken from the first row",
        "plain prompts may be right; batches, packed sequences or decoding are not",
    ),
    "heads-differ": ("a table for each head, or an index over heads", "heads do not share one notion of distance"),
    "length-rule": ("another rule for lengths beyond the trained one than declared", _BEYOND),
    "precision": ("angles are computed too coarsely", "silent; growing with the position"),
    "dtype": ("the result is not cast back to the input's dtype", "later operations run in another dtype"),
    "autocast": (
        "an operation of the angles is on autocast's list (matmul, einsum): switch autocast off around them, or "
        "multiply elementwise",
        "right in float32 and wrong in mixed-precision training",
    ),
    "precision-notable": ("", "harmless in short contexts; float64 angles cost nothing when they are tabulated"),
    "two-tables": ("", "as dynamic NTK and LongRoPE do; cached keys keep the table that they were turned with"),
    "state-cast": (
        "frequencies are a buffer or a parameter of the module, or follow torch's default dtype: compute them in "
        "float32, outside of its state",
        "right as built and wrong after the module is cast or moved, or where the default dtype is another",
    ),
    "output-order": ("", "scores are the same as long as q and k both go through it; compare vectors with care"),
    "offset": ("", "scores are the same as long as q and k are moved alike; cached keys of other code do not fit"),
    "one-speed": ("", "legal: every pair turns at one speed, so that positions repeat after one turn"),
    "rounded-tables": ("", "an entry is off by at most 0.002 at any position: mild, it does not grow"),
    "own-convention": ("", "consistent in itself; weights trained with the usual convention do not fit"),
    "table-end": ("", "fine as long as no longer sequence is admitted"),
    "negative-ids": ("", "matters only where ids below 0 are used (left padding, re-rotation)"),
    "length-of-rows": ("", "a batch of unlike lengths gives other numbers than its rows alone"),
    "no-rope": ("", "as in layers without positions; declare what is expected to have it judged"),
    "stepwise-differs": (
        "the length of the cache is not added to the positions of new tokens, or is read before or after the cache has "
        "grown; a window of tokens is given one position; cached keys are turned again",
        "silent: prompts score well, and generated text strays from the first new token on",
    ),
    "padding-shifts-positions": (
        "positions count the padding in one place and not in another, one row's positions serve all, or the padding is "
        "attended to: build them from the attention mask, row by row",
        "silent: right for one prompt at a time, wrong for the shorter rows of a batch",
    ),
    "rows-share-positions": (
        "one counter, or the width of the cache, for all rows of the batch; at one token a step only row 0 is turned",
        "silent: batched decoding is right for one row and garbage for the others",
    ),
    "merged-cache-differs": (
        "merged rows keep one cursor, that of the longest or the first, or are padded without their positions and mask",
        "silent: a sequence that joins a batch goes on at another one's position",
    ),
    "eviction-breaks-distances": (
        "the rows left in the cache are taken for the position of the next token, or cached keys were moved and the "
        "counter was not",
        "silent until something is evicted; from then on every distance is off by what was dropped",
    ),
    "state-leaks": (
        "a counter, an offset or a stretched table lives in the module and not in the cache, and is not reset",
        "silent: answers depend on what was decoded before, or is being decoded beside",
    ),
    "cached-keys-keep-table": (
        "none in the code: the scaling changes its frequencies with the length, and keys cached before keep the old "
        "ones",
        "beyond the switch generated text is unlike the same text scored at once; cache keys before rotation, or turn "
        "them again",
    ),
}
