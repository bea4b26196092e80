"""The kernel in Triton's language. Importing this file needs Triton; ropewalk.turning.triton calls it."""
# pyright: reportMissingImports=false, reportArgumentType=false

import triton
import triton.language as tl

# How the channels of pair i are found (the constexpr KIND).
RUNS = tl.constexpr(0)  # FIRST + i and SECOND + i: half-split, of any width and start
ADJACENT = tl.constexpr(1)  # FIRST + 2i and the next: interleaved
LISTED = tl.constexpr(2)  # read from a list: everything else

# Where a token's position comes from (the constexpr POSITIONS).
COUNTED = tl.constexpr(0)  # 0 … S-1
ONE_AXIS = tl.constexpr(1)  # position_ids, the same axis for every pair
AXES = tl.constexpr(2)  # position_ids, an axis for each pair

LEVEL_ROWS = tl.constexpr(1024)  # rows of one level of the tables: as tables.ROWS, which the tests compare
LEVEL_BITS = tl.constexpr(10)


@triton.jit
def _added(cos, sin, more_cos, more_sin):
    """Cos and sin of the sum of two angles."""
    return cos * more_cos - sin * more_sin, sin * more_cos + cos * more_sin


@triton.jit
def _cos_sin(m, live, i, tables, speeds, P: tl.constexpr, DIRECT: tl.constexpr):
    """Cos and sin in float64 of positions m [BT, 1 or BP] times the speeds of pairs i [BP]."""
    wanted = live & (i < P)[None, :]
    # Loaded for every token anew, so that cos and sin are spread over the threads, not repeated for each head.
    speed = tl.load(tl.broadcast_to(speeds + i[None, :], wanted.shape), mask=wanted, other=0.0)
    if DIRECT:
        angle = m.to(tl.float64) * speed
        cos = tl.cos(angle)
        sin = tl.sin(angle)
    else:
        a = tl.abs(m)
        row = tables + i[None, :]
        at = row + (a & (LEVEL_ROWS - 1)).to(tl.int32) * (2 * P)
        cos = tl.load(at, mask=wanted, other=1.0)
        sin = tl.load(at + P, mask=wanted, other=0.0)
        at = row + (LEVEL_ROWS + ((a >> LEVEL_BITS) & (LEVEL_ROWS - 1)).to(tl.int32)) * (2 * P)
        cos, sin = _added(cos, sin, tl.load(at, mask=wanted, other=1.0), tl.load(at + P, mask=wanted, other=0.0))
        far = a >> (2 * LEVEL_BITS)
        at = row + (2 * LEVEL_ROWS + (far & (LEVEL_ROWS - 1)).to(tl.int32)) * (2 * P)
        wanted = wanted & (far > 0)  # below 2^20 nothing is read
        cos, sin = _added(cos, sin, tl.load(at, mask=wanted, other=1.0), tl.load(at + P, mask=wanted, other=0.0))
        sin = tl.where(m < 0, -sin, sin)
        if tl.max(far) >= LEVEL_ROWS:  # beyond the tables, from 2^30 on
            angle = m.to(tl.float64) * speed
            cos = tl.where(far < LEVEL_ROWS, cos, tl.cos(angle))
            sin = tl.where(far < LEVEL_ROWS, sin, tl.sin(angle))
    return cos, sin


@triton.jit
def _copied(x, out, live, START: tl.constexpr, STOP: tl.constexpr, BLOCK: tl.constexpr):
    """Copy channels START … STOP-1 of rows x [BT, BH, 1] to rows out, untouched."""
    for start in range(START, STOP, BLOCK):
        c = start + tl.arange(0, BLOCK)[None, None, :]
        mask = live & (c < STOP)
        tl.store(out + c, tl.load(x + c, mask=mask), mask=mask)


@triton.jit(
    do_not_specialize=[
        *("ids", "tokens", "seq", "heads", "heads_each", "chunks"),
        *("x_batch", "x_seq", "x_head", "out_batch", "out_seq", "out_head", "ids_axis", "ids_batch", "ids_seq"),
    ]
)
def turn_kernel(
    x,
    out,
    ids,  # [A, B, S] int64 or float64
    tables,  # [3, 1024, 2, P] float64: of fine, coarse and far positions, cos and sin
    speeds,  # [P + 2] float64: radians a position; then g and 1/g
    lists,  # [2P + P + N] int32: first, second, axis, the N channels in no pair
    tokens,  # B·S
    seq,
    heads,
    heads_each,  # heads that one program turns; a multiple of BH
    chunks,  # programs that share the heads of a token
    x_batch,  # strides of x and out in units of UNIT elements
    x_seq,
    x_head,
    out_batch,
    out_seq,
    out_head,
    ids_axis,
    ids_batch,
    ids_seq,
    D: tl.constexpr,
    P: tl.constexpr,
    N: tl.constexpr,
    KIND: tl.constexpr,
    FIRST: tl.constexpr,
    SECOND: tl.constexpr,
    POSITIONS: tl.constexpr,
    DIRECT: tl.constexpr,  # angles by multiplication instead of from the tables
    BACKWARDS: tl.constexpr,  # by the negative angle
    DIVIDED: tl.constexpr,  # by g, instead of multiplied
    COPY: tl.constexpr,  # out is not x: channels in no pair are copied
    UNIT: tl.constexpr,  # a power of two that divides every stride: tells the compiler how wide a load may be
    BT: tl.constexpr,
    BH: tl.constexpr,
    BP: tl.constexpr,
    BN: tl.constexpr,
):
    """Turn the heads of BT tokens: cos and sin once for each token and pair, then head after head."""
    program = tl.program_id(0)
    token = (program // chunks).to(tokens.dtype) * BT + tl.arange(0, BT)
    chunk = program % chunks
    live = token < tokens
    token = tl.where(live, token, 0)
    b = (token // seq).to(tl.int64)
    s = (token % seq).to(tl.int64)
    x_rows = x + ((b * x_batch + s * x_seq) * UNIT)[:, None, None]
    out_rows = out + ((b * out_batch + s * out_seq) * UNIT)[:, None, None]
    head_from = chunk * heads_each
    head_to = tl.minimum(head_from + heads_each, heads)

    for pair_from in range(0, P, BP):
        i = pair_from + tl.arange(0, BP)
        if POSITIONS == COUNTED:
            m = s[:, None]
        else:
            at = ids + (b * ids_batch + s * ids_seq)[:, None]
            if POSITIONS == AXES:
                axis = tl.load(lists + 2 * P + i, mask=i < P, other=0)
                at += axis.to(tl.int64)[None, :] * ids_axis
            m = tl.load(at)
        cos, sin = _cos_sin(m, live[:, None], i, tables, speeds, P, DIRECT)
        gain = tl.load(speeds + P + DIVIDED)
        cos *= gain
        sin *= gain
        if BACKWARDS:
            sin = -sin
        if x.dtype.element_ty != tl.float64:
            cos = cos.to(tl.float32)
            sin = sin.to(tl.float32)
        cos = cos[:, None, :]
        sin = sin[:, None, :]
        if KIND == LISTED:
            first = tl.load(lists + i, mask=i < P, other=0)[None, None, :]
            second = tl.load(lists + P + i, mask=i < P, other=0)[None, None, :]
        else:
            first = FIRST + i[None, None, :]
            second = SECOND + i[None, None, :]

        for head in range(head_from, head_to, BH):
            h = head + tl.arange(0, BH)
            rows = live[:, None, None] & (h < head_to)[None, :, None]
            h = h.to(tl.int64)[None, :, None]
            x_at = x_rows + h * x_head * UNIT
            out_at = out_rows + h * out_head * UNIT
            if KIND == ADJACENT:
                c = FIRST + 2 * pair_from + tl.arange(0, 2 * BP)[None, None, :]
                mask = rows & (c < FIRST + 2 * P)
                both = tl.load(x_at + c, mask=mask, other=0.0).to(cos.dtype)
                one, two = tl.split(tl.reshape(both, (BT, BH, BP, 2)))
                both = tl.join(one * cos - two * sin, two * cos + one * sin)
                both = tl.reshape(both, (BT, BH, 2 * BP))
                tl.store(out_at + c, both.to(out.dtype.element_ty), mask=mask)
            else:
                mask = rows & (i < P)[None, None, :]
                one = tl.load(x_at + first, mask=mask, other=0.0).to(cos.dtype)
                two = tl.load(x_at + second, mask=mask, other=0.0).to(cos.dtype)
                tl.store(out_at + first, (one * cos - two * sin).to(out.dtype.element_ty), mask=mask)
                tl.store(out_at + second, (two * cos + one * sin).to(out.dtype.element_ty), mask=mask)

    if COPY and N > 0:
        for head in range(head_from, head_to, BH):
            h = head + tl.arange(0, BH)
            rows = live[:, None, None] & (h < head_to)[None, :, None]
            h = h.to(tl.int64)[None, :, None]
            x_at = x_rows + h * x_head * UNIT
            out_at = out_rows + h * out_head * UNIT
            if KIND == LISTED:
                for rest_from in range(0, N, BN):
                    n = rest_from + tl.arange(0, BN)
                    c = tl.load(lists + 3 * P + n, mask=n < N, other=0)[None, None, :]
                    mask = rows & (n < N)[None, None, :]
                    tl.store(out_at + c, tl.load(x_at + c, mask=mask), mask=mask)
            else:
                _copied(x_at, out_at, rows, 0, FIRST, BN)
                if KIND == RUNS:
                    _copied(x_at, out_at, rows, FIRST + P, SECOND, BN)
                    _copied(x_at, out_at, rows, SECOND + P, D, BN)
                else:
                    _copied(x_at, out_at, rows, FIRST + 2 * P, D, BN)
