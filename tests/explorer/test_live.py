"""The lessons' live pieces.

The road: expected numbers come from Python's `math`, from fractions, from the papers' formulas written out here, or
from the requirements (lesson-and-simulator.md); none from the functions that draw. A tolerance of 1e-12 is some
thousand ulp of numbers near 1.
"""

import html
import json
import math
import random
import re
from fractions import Fraction
from importlib.resources import files
from urllib.parse import urlencode
from xml.etree import ElementTree

import numpy as np
import pytest

from ropewalk import read
from ropewalk.explorer import lessons
from ropewalk.explorer.app import get
from ropewalk.explorer.i18n import LANGUAGES, Speech
from ropewalk.explorer.live import PIECES, attention, codes, odometer, products, sinusoids, sparse, stretch
from ropewalk.simulation import DEFAULT_QUERY

NAMES = ("attention", "sinusoids", "permute", "products", "odometer", "sparse", "codes", "stretch", "measured")
LESSONS = {
    name: lesson for lesson in lessons.COURSE for name in re.findall(r"```live (\w+)", lessons.source("en", lesson))
}
QUERIES = {
    "sinusoids": "d=8&m=107&n=102",
    "permute": "order=DDAB&mask=1",
    "products": "m=2&n=7&theta=0.5",
    "odometer": "position=104&d=128&base=500000",
    "sparse": "position=-3&pairing=half",
    "codes": "position=20000",
    "stretch": "d=64&factor=1&length=1",
    "measured": "times=4",
}
BAD = (
    "nan",
    "inf",
    "-inf",
    "1e400",
    "",
    "x",
    "<script>alert(1)</script>",
    '"><img src=x>',
    "9" * 30,
    "7;DROP",
    "\0",
    "٣x",
)


def draw(name, query="", lang="en"):
    return str(PIECES[name](Speech(lang), query))


def cells(text, *, table):
    """Give the rows of the n-th table as lists of plain text."""
    body = re.findall(r"<table.*?</table>", text, re.DOTALL)[table]
    rows = re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)[1:]
    return [
        [html.unescape(re.sub("<[^>]+>", "", cell)) for cell in re.findall(r"<t[hd].*?</t[hd]>", row)] for row in rows
    ]


# --- Every piece -----------------------------------------------------------------------------------------------------


def test_all_nine_pieces_stand_in_a_lesson():
    assert tuple(PIECES) == NAMES
    assert set(LESSONS) == set(NAMES)


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("name", NAMES)
def test_piece_renders_in_every_language_well_formed_and_without_nan(name, lang):
    for query in ("", QUERIES.get(name, "")):
        text = draw(name, query, lang)
        ElementTree.fromstring(html_to_xml(text))
        words = " ".join([html.unescape(re.sub("<[^>]+>", " ", text)), *re.findall(r'="([^"]*)"', text)])
        assert not re.search(r"\b(nan|NaN|inf|None)\b", words)
        assert "style=" not in text and "<script" not in text and not re.search(r"<[^>]* on\w+=", text)
        assert f'class="piece piece-{name}"' in text


def html_to_xml(text):
    for mark in ("checked", "selected"):
        text = re.sub(rf" {mark}(?=[ >])", f' {mark}="{mark}"', text)
    return re.sub(r"(<input[^>]*)>", r"\1/>", text)


@pytest.mark.parametrize("name", QUERIES)
def test_good_parameters_are_taken_without_a_message_and_come_back_from_the_canonical_query(name):
    piece = PIECES[name]
    values, messages = piece.parse(QUERIES[name])
    assert not messages
    assert piece.parse(piece.query(values)) == (values, ())
    assert values != piece.parse("")[0]
    assert piece.query(piece.parse("")[0]) == ""


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("name", QUERIES)
def test_a_bad_parameter_gives_a_message_and_its_default(name, bad):
    piece = PIECES[name]
    for control in piece.controls:
        values, messages = piece.parse(urlencode({control.name: bad}))
        assert values == piece.parse("")[0]
        assert [message.parameter for message in messages] == [control.name]
        text = draw(name, urlencode({control.name: bad}))
        assert 'class="message" role="alert"' in text
        assert "<script" not in text and "<img" not in text


def test_parameters_of_the_simulator_pass_in_silence_and_unknown_ones_do_not():
    assert PIECES["odometer"].parse("m=7&window=99")[1] == ()
    (message,) = PIECES["odometer"].parse("%3Cb%3E=1")[1]
    assert message.kind == "unknown"
    assert "&lt;b&gt;" in draw("odometer", "%3Cb%3E=1")
    assert PIECES["odometer"].parse("position=1&" * 200)[1][0].kind == "too-many"


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("name", NAMES)
def test_the_lessons_address_reaches_the_piece_and_the_other_languages(name, lang):
    query = QUERIES.get(name, "")
    status, text = get(f"/{lang}/learn/{LESSONS[name]}?{query}&evil=%22%3E%3Cscript%3E")
    assert status == 200
    assert "<script>" not in text
    assert str(PIECES[name](Speech(lang), f"{query}&evil=%22%3E%3Cscript%3E")) in text
    canonical = PIECES[name].query(PIECES[name].parse(query)[0]).replace("&", "&amp;")
    assert f'href="/zh/learn/{LESSONS[name]}{"?" + canonical if canonical else ""}"' in text


def test_fuzzed_addresses_never_fail():
    rng = random.Random(5)
    names = [control.name for piece in PIECES.values() for control in piece.controls] + ["embed", "zz"]
    texts = [*BAD, "0", "1", "-1", "8", "128", "0.5", "1e9", "1000000000", "ABCD", "A", "aabbcc", "half", "1e12", "2"]
    for _ in range(150):
        query = urlencode([(rng.choice(names), rng.choice(texts)) for _ in range(3)])
        for name in NAMES:
            text = draw(name, query, rng.choice(tuple(LANGUAGES)))
            assert "<script" not in text and "<img" not in text and "nan" not in re.sub("<[^>]+>", " ", text).split()


def test_an_embedded_lesson_stays_embedded_when_its_form_is_sent():
    assert '<input type="hidden" name="embed" value="1">' in draw("odometer", "embed=1")
    assert 'name="embed"' not in draw("odometer")


# --- Attention -------------------------------------------------------------------------------------------------------


def test_attention_weights_are_the_softmax_of_q_dot_k_over_sqrt_d():
    rows = cells(draw("attention"), table=1)
    values = {"A": (1, 0), "B": (0, 1), "C": (-1, 0)}
    for row, scores in zip(rows, ((2, 1, 0), (0, 1, 2), (1.5, 1, 1.5)), strict=True):
        assert [float(text) for text in row[1:4]] == list(scores)
        weights = [math.exp(score) / sum(map(math.exp, scores)) for score in scores]
        assert row[4:7] == [f"{weight:.6f}" for weight in weights]
        output = [sum(w * value[c] for w, value in zip(weights, values.values(), strict=True)) for c in (0, 1)]
        assert row[7] == f"({output[0]:.6f}, {output[1]:.6f})"


def test_permuted_tokens_take_their_outputs_along():
    """The English lesson's table, typed in from there."""
    expected = {"A": "(1.435946, 0.716005)", "B": "(1.000000, 0.802224)", "C": "(1.798059, 0.898325)"}
    for order in ("CAB", "BCA", "ABC"):
        text = draw("permute", f"order={order}")
        assert [(row[1], row[2]) for row in cells(text, table=1)] == [(name, expected[name]) for name in order]
        assert all(float(row[5]) < 1e-15 for row in cells(text, table=1))


def test_equal_tokens_cannot_be_told_apart_and_the_mask_tells_order():
    rows = cells(draw("permute", "order=ACBA"), table=1)
    assert rows[0][2] == rows[3][2]
    masked = cells(draw("permute", "order=CABD&mask=1"), table=1)
    assert masked[0][2] == "(2.000000, 1.000000)"  # the first token sees itself alone
    assert float(masked[1][5]) > 0.1
    assert attention.shuffle("DDAB") == ("ABDD", [2, 3, 0, 1])


# --- Sinusoids -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "n"), [(7, 2), (107, 102), (2, 7)])
def test_two_codes_meet_in_the_distance_alone(m, n):
    assert cells(draw("sinusoids", f"d=8&m={m}&n={n}"), table=0)[-1][-1] == "3.159983"


def test_sinusoidal_code_by_pythons_math():
    code = sinusoids.code(np.arange(64), 16)
    assert code.shape == (64, 16)
    for p in (0, 1, 63):
        for i in range(8):
            angle = p * 10000 ** (-2 * i / 16)
            assert code[p, 2 * i : 2 * i + 2] == pytest.approx([math.sin(angle), math.cos(angle)], abs=1e-12)


def test_heat_figure_has_a_cell_for_every_number_that_is_not_of_the_ground_tone():
    text = draw("sinusoids")
    heat = text[text.index('class="heat"') : text.index("<figcaption>")]
    drawn = sum(path.count("M") for path in re.findall(r'<path class="h\d" d="([^"]*)"', heat)) - 8  # 8 of the legend
    values = [f(p * 10000 ** (-2 * i / 16)) for p in range(64) for i in range(8) for f in (math.sin, math.cos)]
    assert drawn == sum((value + 1) / 2 * 9 >= 1 for value in values)


# --- Products --------------------------------------------------------------------------------------------------------


def matrices(text):
    found = re.findall(r"<mtable>(.*?)</mtable>", text)
    return [
        [float(n.replace("−", "-")) for n in re.findall(r"<mtd><mn>([^<]*)</mn></mtd>", matrix)] for matrix in found
    ]


@pytest.mark.parametrize(("m", "n", "theta"), [(7, 2, 1.0), (107, 102, 1.0), (3, 3, 0.5), (-4, 9, -2.25)])
def test_products_are_the_rotations_of_the_distance(m, n, theta):
    def flat(angle):
        return [math.cos(angle), -math.sin(angle), math.sin(angle), math.cos(angle)]

    seen = matrices(draw("products", f"m={m}&n={n}&theta={theta}"))
    there, back = flat((n - m) * theta), flat((m - n) * theta)
    for matrix, right in zip(seen, (flat(m * theta), flat(n * theta), there, there, back, back), strict=True):
        assert matrix == pytest.approx(right, abs=5.1e-7)  # six decimals are drawn


def test_products_of_the_lesson():
    seen = matrices(draw("products"))
    assert seen[2] == [0.283662, -0.958924, 0.958924, 0.283662]
    assert seen[4] == [0.283662, 0.958924, -0.958924, 0.283662]
    same, other = cells(draw("products"), table=0)[0][1:]
    assert float(same) < 1e-15
    assert other == f"{2 * math.sin(5) * -1:.6f}"
    assert np.array_equal(products.rotation(0.0), np.eye(2))


# --- Odometer --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("position", "digits"), [(104, (0, 1, 0, 4)), (105, (0, 1, 0, 5)), (9999, (9, 9, 9, 9)), (0, (0, 0, 0, 0))]
)
def test_digits_at_d_8(position, digits):
    wheels = odometer.wheels(position, 8, 10000.0)
    assert tuple(wheel.digit for wheel in reversed(wheels)) == digits
    assert f"({', '.join(map(str, digits))})" in draw("odometer", f"position={position}")


def test_odometer_at_9999_wheel_by_wheel():
    rows = cells(draw("odometer"), table=0)
    assert [row[1:5] for row in rows] == [
        ["1", "9999", "9", "9"],
        ["10", "999.9", "9.9", "9"],
        ["100", "99.99", "9.99", "9"],
        ["1000", "9.999", "9.999", "9"],
    ]
    assert [row[5] for row in rows] == ["10", "100", "1000", "10000"]
    assert [row[8] for row in rows] == ["6.28", "62.83", "628.32", "6283.19"]
    assert [row[6] for row in rows] == ["999", "99", "9", "0"]
    assert [row[9] for row in rows] == ["1591", "159", "15", "1"]  # floor(9999 / (2π·10^i))
    assert rows[3][7] == "212.90°"


@pytest.mark.parametrize(("position", "turns"), [(6283, 0), (6284, 1), (9999, 1), (10000, 1)])
def test_slowest_circle_wraps_at_6283(position, turns):
    slowest = odometer.wheels(position, 8, 10000.0)[-1]
    assert (slowest.circle_turns, slowest.turns) == (turns, position // 10000)


@pytest.mark.parametrize(
    ("d", "base"), [(8, 10000.0), (4, 4096.0), (2, 16.0), (6, 1000.0), (8, 500000.0), (128, 10000.0)]
)
@pytest.mark.parametrize("position", [0, 1, 104, 9999, 10**9])
def test_remainders_by_exact_fractions(position, d, base):
    exact = Fraction(odometer.radix(d, base))
    for wheel in odometer.wheels(position, d, base):
        quotient = position / exact**wheel.pair
        remainder = quotient - exact * math.floor(quotient / exact)
        # a float64 quotient is off by its own size times 2^-53 and a few roundings of the power before it
        gap = abs(wheel.remainder - float(remainder))
        assert min(gap, float(exact) - gap) <= float(quotient) * 2.0**-46 * (wheel.pair + 1)
        assert 0 <= wheel.remainder < float(exact)
        assert wheel.angle == pytest.approx(position * base ** (-2 * wheel.pair / d), rel=1e-12)
        assert wheel.circle_period == pytest.approx(2 * math.pi * base ** (2 * wheel.pair / d), rel=1e-12)


def test_wide_odometer_leaves_out_the_middle_and_keeps_the_slowest():
    text = draw("odometer", "d=128")
    rows = cells(text, table=0)
    assert [row[0] for row in rows] == [*map(str, range(11)), "63"]
    assert "52 rows are left out." in text
    assert rows[-1][8] == "54410.14"
    assert text.count('class="wheels"') == odometer.DRAWN


def test_stepping_links_stay_in_range():
    assert 'href="?position=10000#piece-odometer"' in draw("odometer")
    assert "position=-1" not in draw("odometer", "position=0")


# --- Sparse ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pairing", ["interleaved", "half"])
@pytest.mark.parametrize("position", [0, 7, -3, 1000])
def test_big_matrix_by_pythons_math(pairing, position):
    expected = np.zeros((8, 8))
    for i in range(4):
        a, b = (2 * i, 2 * i + 1) if pairing == "interleaved" else (i, i + 4)
        angle = position * 10 ** (-i)
        expected[a, a] = expected[b, b] = math.cos(angle)
        expected[a, b], expected[b, a] = -math.sin(angle), math.sin(angle)
    assert np.abs(sparse.matrix(sparse.rope_of(pairing), position) - expected).max() < 1e-12
    rows = cells(draw("sparse", f"position={position}&pairing={pairing}"), table=0)
    result = expected @ np.array(DEFAULT_QUERY)
    assert [float(row[5]) for row in rows] == pytest.approx(result.tolist(), abs=5.1e-7)
    assert [float(row[6]) for row in rows] == pytest.approx(result.tolist(), abs=5.1e-7)
    assert all(float(row[7]) < 1e-15 for row in rows)


def test_both_pictures_have_two_numbers_in_every_row():
    text = draw("sparse")
    assert text.count('class="entry"') == 2 * 16
    assert text.count('class="zero"') == 2 * (64 - 16)
    assert "16 of 64" in text and "256 of 16384" in text


# --- Codes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("position", [0, 7, 2047, 20_000])
def test_three_forms_agree_with_pythons_math(position):
    x = np.array(DEFAULT_QUERY)
    right = []
    for i in range(4):
        a, b, angle = x[2 * i], x[2 * i + 1], position * 10.0 ** (-i)
        right += [a * math.cos(angle) - b * math.sin(angle), b * math.cos(angle) + a * math.sin(angle)]
    outputs = codes.run(x, position)
    # base ** (-2i/d) may be off by an ulp, and the position multiplies that
    near = pytest.approx(right, abs=1e-15 * max(position, 10))
    assert outputs["complex"].tolist() == near
    for name in ("ChatGLM-6B", "Llama"):
        assert outputs[name][[0, 4, 1, 5, 2, 6, 3, 7]].tolist() == near
    assert max(codes.deviations(x, position).values()) < 1e-15 * max(position, 10)


def test_forms_take_batches_heads_and_positions():
    rng = np.random.default_rng(3)
    x, at = rng.standard_normal((2, 5, 3, 16)), rng.integers(0, 4000, (2, 5))  # [B, S, H, D], [B, S]
    order = np.r_[0:16:2, 1:16:2]
    neighbours = codes.complex_form(x, at)
    by_llama = codes.llama(x[..., order].swapaxes(1, 2), at).swapaxes(1, 2)
    by_chatglm = codes.chatglm(x[..., order].swapaxes(0, 1), at.T).swapaxes(0, 1)
    for out in (by_llama, by_chatglm):
        assert np.abs(out - neighbours[..., order]).max() < 1e-11


def test_rotate_half_order_and_sign():
    assert codes.rotate_half(np.arange(8.0)).tolist() == [-4, -5, -6, -7, 0, 1, 2, 3]
    text = draw("codes")
    rows = cells(text, table=2)
    assert rows[0][2] == "(−x4, −x5, −x6, −x7, x0, x1, x2, x3)"
    assert rows[1][2] == "(−x1, x0, −x3, x2, −x5, x4, −x7, x6)"
    assert rows[2][2] == rows[3][2] == "(x1, −x0, x3, −x2, x5, −x4, x7, −x6)"
    assert [float(row[3]) for row in rows] == [0, 0, 0, 0]  # position 0 proves nothing
    assert [float(row[4]) < 1e-15 for row in rows] == [True, True, False, False]


# --- Stretch ---------------------------------------------------------------------------------------------------------


def divisors(width, factor, length):
    """Every method's divisors by the papers' formulas, written out with Python's math."""
    pairs = range(width // 2)
    theta = [10000.0 ** (-2 * i / width) for i in pairs]
    turns = [4096 * t / (2 * math.pi) for t in theta]
    ratio = max(1.0, factor * length / 4096 - (factor - 1))

    def ramp(value, low, high):
        return min(1.0, max(0.0, (value - low) / (high - low)))

    def bound(beta):
        return width * math.log(4096 / (beta * 2 * math.pi)) / (2 * math.log(10000.0))

    low, high = max(math.floor(bound(32)), 0), min(math.ceil(bound(1)), width - 1)
    yarn = [ramp(i, low, high) for i in pairs]
    kept = [ramp(turn, 1, 4) for turn in turns]
    return {
        "linear": [factor for _ in pairs],
        "ntk": [factor ** (2 * i / (width - 2)) for i in pairs],
        "dynamic": [ratio ** (2 * i / (width - 2)) for i in pairs],
        "yarn": [1 / (g / factor + 1 - g) for g in yarn],
        "llama3": [1 / ((1 - g) / factor + g) for g in kept],
    }


@pytest.mark.parametrize(
    ("width", "factor", "length"), [(128, 8.0, 32768), (64, 2.0, 8192), (96, 8.0, 4096), (80, 1.0, 1)]
)
def test_divisors_by_the_papers_formulas(width, factor, length):
    seen = {method.name: method for method in stretch.methods(width, factor, length)}
    for name, expected in divisors(width, factor, length).items():
        assert seen[name].divisors.tolist() == pytest.approx(expected, rel=1e-12)
    assert seen["untouched"].divisors.tolist() == [1.0] * (width // 2)
    assert seen["yarn"].factor == pytest.approx(1 + 0.1 * math.log(factor), rel=1e-15)


def test_table_of_pairs_says_what_the_lessons_say():
    rows = {row[0]: row[1:] for row in cells(draw("stretch"), table=0)}
    assert rows["YaRN"][:3] == ["21 (0–20)", "25 (21–45)", "18 (46–63)"]
    assert rows["llama3"][:3] == ["36 (0–35)", "10 (36–45)", "18 (46–63)"]
    assert rows["linear"][:4] == ["0", "0", "64 (0–63)", "8"]
    assert rows["NTK-aware"][:4] == ["1 (0)", "62 (1–62)", "1 (63)", "1 … 8"]
    assert rows["YaRN"][4:] == ["1.207944", "1.459129"]
    assert all(rows[name][4:] == ["1.000000", "1.000000"] for name in ("linear", "NTK-aware", "dynamic NTK", "llama3"))


def test_longrope_draws_the_presets_lists():
    lists = read("phi-3-mini-128k").rope.scaling
    for length, expected in ((32768, lists.long_factor), (4096, lists.short_factor)):
        method = next(method for method in stretch.methods(128, 8.0, length) if method.name == "longrope")
        assert method.divisors.tolist() == pytest.approx(expected, rel=1e-12)
        assert method.factor == pytest.approx(math.sqrt(1 + math.log(32) / math.log(4096)), rel=1e-12)


def test_score_curves_by_pythons_math_and_by_the_lessons_numbers():
    rows = {row[0]: row[1:] for row in cells(draw("stretch"), table=1)}
    right = divisors(128, 8.0, 32768)
    names = {"linear": "linear", "ntk": "NTK-aware", "dynamic": "dynamic NTK", "yarn": "YaRN", "llama3": "llama3"}
    for name, label in names.items():
        gain = (1 + 0.1 * math.log(8)) ** 2 if name == "yarn" else 1.0
        for text, distance in zip(rows[label], stretch.DISTANCES, strict=True):
            angles = [distance * 10000.0 ** (-i / 64) / divisor for i, divisor in enumerate(right[name])]
            assert float(text) == pytest.approx(gain * math.fsum(map(math.cos, angles)) / 64, abs=5.1e-5)
    # the Chinese lesson's numbers
    assert (rows["untouched"][1], rows["linear"][1], rows["NTK-aware"][1]) == ("0.9702", "0.9995", "0.9750")
    assert (rows["untouched"][4], rows["llama3"][4]) == ("0.2194", "0.3184")
    assert rows["linear"][2:4] == rows["untouched"][1:3]  # eight times as wide


def test_every_method_is_drawn_with_a_stroke_or_dot_for_each_pair_and_the_trained_length():
    text = draw("stretch")
    pictures = re.findall(r'<svg class="stretch".*?</svg>', text, re.DOTALL)
    assert len(pictures) == 7
    for picture, method in zip(pictures, stretch.methods(128, 8.0, 32768), strict=True):
        drawn = {kind: len(re.findall(rf'class="[^"]*\b{kind}"', picture)) for kind in ("kept", "blended", "stretched")}
        assert drawn == {kind: method.kinds.count(kind) for kind in drawn}
        assert 'class="mark original"' in picture


# --- Measured --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [2, 4])
def test_the_measured_losses_are_the_shipped_ones(times):
    data = json.loads((files("ropewalk.measuring") / "smollm2-135m.json").read_text(encoding="utf-8"))
    curves = data["measurements"][str(times)]["curves"]
    text = draw("measured", f"times={times}")
    within, beyond = 8 * 1024 - 1, (8 * times - 8) * 1024  # tokens: the first of a text has no loss
    for row, curve in zip(cells(text, table=0), curves, strict=True):
        totals = [loss * count for loss, count in zip(curve["losses"], curve["counts"], strict=True)]
        assert [float(cell) for cell in row[1:]] == pytest.approx(
            [sum(totals[:8]) / within, sum(totals[8:]) / beyond], abs=0.0051
        )
    rows = cells(text, table=1)
    assert len(rows) == 16 and rows[0][0] == f"0–{512 * times - 1}" and rows[-1][0].endswith(f"–{8192 * times - 1}")
    for k in (1, 9, 15):
        for cell, curve in zip(rows[k][1:], curves, strict=True):
            parts = curve["losses"][k * times // 2 : (k + 1) * times // 2]
            assert abs(float(cell) - sum(parts) / len(parts)) < 0.0051
    assert len(re.findall(r'<polyline class="line m-\w+"', text)) == len(curves) == 6
    assert data["command"] in text and data["date"] in text
