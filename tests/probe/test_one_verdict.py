"""One fault, one verdict: faulty code unlike the gallery's, each of which once got another name, two names or none."""

import numpy as np
import pytest

from ropewalk import Rope
from ropewalk.probe.checking import check
from ropewalk.scaling import Dynamic, Yarn

torch = pytest.importorskip("torch")


def speeds(theta, width):
    return theta ** (-np.arange(0, width, 2) / width)


def half(x, angle):
    """Turn halves of torch vectors by angles [..., P], the rest passed on."""
    width = 2 * angle.shape[-1]
    a, b = x[..., : width // 2], x[..., width // 2 : width]
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    return torch.cat([a * cos - b * sin, b * cos + a * sin, x[..., width:]], -1)


def neighbours(x, angle):
    """Turn neighbours of NumPy vectors through complex numbers."""
    z = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angle)
    return np.stack([z.real, z.imag], -1).reshape(x.shape).astype(x.dtype)


def rows(ids, x):
    return ids if ids.ndim == 2 else ids[None].expand(x.shape[0], -1)


def faults(fn, rope, **options):
    report = check(fn, head_dim=rope.head_dim, expect=rope, **options)
    return [finding.name for finding in report.findings if finding.severity != "note"]


HALF64 = Rope(head_dim=64, rope_theta=1e4, pairing="half")
W64 = torch.tensor(speeds(1e4, 64), dtype=torch.float32)


class ByLength(torch.nn.Module):
    """Keeps the angles of the first row of the first call of each length."""

    def __init__(self):
        super().__init__()
        self.kept = {}

    def forward(self, x, ids):
        if x.shape[1] not in self.kept:
            self.kept[x.shape[1]] = rows(ids, x)[:1, :, None] * W64
        return half(x, self.kept[x.shape[1]][:, :, None])


def test_a_cache_by_length_alone_is_stale():
    assert faults(ByLength(), HALF64) == ["stale-table"]


class Growing(torch.nn.Module):
    """Dynamic NTK whose base never shrinks again."""

    def __init__(self):
        super().__init__()
        self.longest = 0

    def forward(self, x, ids):
        self.longest = max(self.longest, int(ids.max()) + 1)
        stretched = 3 * max(self.longest, 3072) / 3072 - 2
        speed = torch.tensor(speeds(5e4 * stretched ** (96 / 94), 96), dtype=torch.float32)
        return half(x, (rows(ids, x)[..., None] * speed)[:, :, None])


def test_a_base_that_only_grows_is_one_fault_and_its_gradient_none():
    rope = Rope(head_dim=96, rope_theta=5e4, pairing="half", scaling=Dynamic(factor=3.0), max_position_embeddings=3072)
    assert faults(Growing(), rope) == ["dynamic-sticky"]


def test_heads_that_rest_are_one_fault_and_their_gradient_none():
    def fn(x, ids):
        out = x.clone()
        out[:, 0] = half(x[:, 0], (ids if ids.ndim == 2 else ids[None])[..., None] * W64)
        return out

    assert faults(fn, HALF64, layout="bhsd", heads=6) == ["first-head-only"]


@pytest.mark.parametrize("count", [20, 64, 100, 5000])
def test_a_table_that_ends_in_an_error_is_no_fault_however_short(count):
    table = torch.arange(count)[:, None] * W64
    report = check(lambda x, ids: half(x, table[rows(ids, x)][:, :, None]), head_dim=64, expect=HALF64)
    assert {(finding.severity, finding.name) for finding in report.findings} == {
        ("note", "table-end"),
        ("note", "negative-ids"),
    }


@pytest.mark.parametrize("count", [100, 4096])
@pytest.mark.parametrize("beyond", ["last row", "unturned", "wraps"])
def test_a_table_that_ends_silently_is_clamped_however_short(count, beyond):
    def fn(x, ids):
        place = np.broadcast_to(ids, x.shape[:2])
        kept = {"last row": np.minimum(place, count - 1), "wraps": place % count}.get(beyond, place)
        turned = neighbours(x, (kept[..., None] * speeds(1e4, 48))[:, :, None])
        return np.where((place < count)[..., None, None], turned, x) if beyond == "unturned" else turned

    assert faults(fn, Rope(head_dim=48, rope_theta=1e4, pairing="interleaved")) == ["table-end-clamped"]


def bfloat16(values):
    return torch.as_tensor(values).to(torch.bfloat16).double().numpy()


COARSE = {
    "rounded": lambda exponent: bfloat16(1e4**-exponent),
    "exponents": lambda exponent: 1e4 ** -bfloat16(exponent),
    "inverses": lambda exponent: 1 / bfloat16(1e4**exponent),
    "all": lambda exponent: bfloat16(1 / bfloat16(1e4 ** bfloat16(exponent))),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("how", COARSE)
def test_frequencies_computed_in_bfloat16_are_named_whichever_step_was_rounded(how, dtype):
    speed = torch.tensor(COARSE[how](np.arange(0, 96, 2) / 96), dtype=torch.float32)
    rope = Rope(head_dim=96, rope_theta=1e4, pairing="half")
    fn = lambda x, ids: half(x, (rows(ids, x)[..., None].float() * speed)[:, :, None])  # noqa: E731
    assert faults(fn, rope, dtype=dtype) == ["bf16-frequencies"]


def by_offset(x, ids):
    """Count in x's dtype from the first id of each run of consecutive ids, as functions with an offset do."""
    steps = rows(ids, x)
    place = torch.arange(steps.shape[1])
    first = torch.ones_like(steps, dtype=torch.bool)
    first[:, 1:] = steps[:, 1:] != steps[:, :-1] + 1
    start = torch.where(first, place, 0).cummax(1).values
    return (place - start).to(x.dtype) + steps.gather(1, start).to(x.dtype)


@pytest.mark.parametrize(
    "angle",
    [
        lambda x, ids: rows(ids, x).to(x.dtype).float()[..., None] * W64,
        lambda x, ids: by_offset(x, ids).float()[..., None] * W64,
        lambda x, ids: rows(ids, x).to(x.dtype)[..., None] * W64.to(x.dtype),
    ],
    ids=["ids", "offset", "product too"],
)
@pytest.mark.parametrize("max_position", [300, 1_048_576])
def test_positions_in_the_dtype_of_bfloat16_vectors_are_named(angle, max_position):
    fn = lambda x, ids: half(x, angle(x, ids)[:, :, None])  # noqa: E731
    assert faults(fn, HALF64, dtype="bfloat16", max_position=max_position) == ["bf16-positions"]


def test_vectors_in_half_precision_are_tried_and_what_is_rounded_there_is_a_note():
    report = check(
        lambda x, ids: half(x, (rows(ids, x).to(x.dtype).float()[..., None] * W64)[:, :, None]),
        head_dim=64,
        expect=HALF64,
    )
    assert report.ok
    assert ("note", "bf16-positions") in [(finding.severity, finding.name) for finding in report.findings]


def of_default_dtype(ids):
    return ids[..., None] * (1.0 / 1e4 ** (torch.arange(0, 64, 2) / 64))


def of_default_dtype_in_float32(ids):
    return ids[..., None].float() * torch.exp(-torch.arange(0, 64, 2) * (np.log(1e4) / 64)).float()


@pytest.mark.parametrize(
    ("angle", "words"),
    [
        (of_default_dtype, "positions or the angle product rounded to bf16"),
        (of_default_dtype_in_float32, "frequencies computed in bf16"),
    ],
)
def test_what_the_default_dtype_does_has_a_cause_in_words(angle, words):
    report = check(lambda x, ids: half(x, angle(rows(ids, x))[:, :, None]), head_dim=64, expect=HALF64)
    (note,) = [finding for finding in report.findings if "default dtype" in finding.seen]
    assert note.severity == "note" and words in note.seen and "no known rounding" not in note.seen


@pytest.mark.parametrize("constant", [-1, 0.5, 100_000])
def test_a_constant_offset_of_any_size_is_a_note(constant):
    fn = lambda x, ids: neighbours(x, ((np.broadcast_to(ids, x.shape[:2]) + constant)[..., None] * W)[:, :, None])  # noqa: E731
    W = speeds(1e4, 64)
    report = check(fn, head_dim=64, expect=Rope(head_dim=64, rope_theta=1e4, pairing="interleaved"))
    assert [finding.name for finding in report.findings if finding.name != "negative-ids"] == ["offset"]
    assert report.offset == pytest.approx(constant, rel=1e-6)


def test_a_position_that_is_now_and_then_another_is_random():
    rng = np.random.default_rng(3)
    W = speeds(1e4, 32)

    def fn(x, ids):
        shift = int(rng.random() < 0.3)
        return neighbours(x, ((np.broadcast_to(ids, x.shape[:2]) + shift)[..., None] * W)[:, :, None])

    assert faults(fn, Rope(head_dim=32, rope_theta=1e4, pairing="interleaved")) == ["random"]


@pytest.mark.parametrize(
    ("fn", "name"),
    [
        (lambda x, ids: half(x, torch.zeros(1, 1, 1, 32)).to_sparse(), "type"),
        (lambda x, ids: torch.nested.nested_tensor(list(x)), "type"),
        (lambda x, ids: x.to(torch.complex64), "type"),
        (lambda x, ids: x.to(torch.int64), "type"),
        (lambda x, ids: x.to("meta"), "device"),
        (lambda x, ids: torch.zeros_like(x), "not-a-rotation"),
        (lambda x, ids: x / x.norm(dim=-1, keepdim=True), "nonlinear"),
    ],
)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_tensors_that_are_no_plain_numbers_are_a_verdict(fn, name):
    assert faults(fn, HALF64) == [name]


def test_a_partial_yarn_in_torch_keeps_one_name_with_its_ramp_inverted():
    scaling = Yarn(factor=5.0, original_max_position_embeddings=3000, beta_fast=24.0, beta_slow=2.0)
    rope = Rope(head_dim=64, rope_theta=1e5, pairing="half", rotary_dim=48, scaling=scaling)
    plain = speeds(1e5, 48)
    low, high = (48 * np.log(3000 / (2 * np.pi * beta)) / (2 * np.log(1e5)) for beta in (24.0, 2.0))
    share = np.clip((np.arange(24) - np.floor(low)) / (np.ceil(high) - np.floor(low)), 0, 1)
    speed = torch.tensor(plain * share + plain / 5 * (1 - share), dtype=torch.float32)
    g = 0.1 * np.log(5.0) + 1

    def fn(x, ids):
        turned = half(x, (rows(ids, x)[..., None] * speed)[:, :, None])
        return torch.cat([g * turned[..., :48], turned[..., 48:]], -1)

    assert faults(fn, rope) == ["yarn-ramp-inverted"]
