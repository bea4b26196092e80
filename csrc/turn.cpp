// The kernel. This file is compiled once for each instruction set, with ROPEWALK_VARIANT naming the function;
// the loops are plain, and the compiler makes vectors of them. No inline function of the C++ library is used here:
// the linker keeps one copy of such a function for all variants, and it must not be one that an older processor
// cannot run.
#include "turn.h"

#if defined(__F16C__) && defined(__AVX2__)
#define ROPEWALK_F16C 1
#include <immintrin.h>
#endif
#include <math.h>
#include <stdlib.h>
#include <string.h>

#if defined(_OPENMP)
#define ROPEWALK_SIMD _Pragma("omp simd")
#elif defined(__clang__)
#define ROPEWALK_SIMD _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define ROPEWALK_SIMD _Pragma("GCC ivdep")
#else
#define ROPEWALK_SIMD
#endif

#if defined(__GNUC__)
#define ROPEWALK_INLINE inline __attribute__((always_inline))
#else
#define ROPEWALK_INLINE inline
#endif

namespace ropewalk {
namespace {

// ---------------------------------------------------------------------------------------------- numbers

ROPEWALK_INLINE float as_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

ROPEWALK_INLINE uint32_t as_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

// Each type of element: how it lies in memory, what it is computed in, and one rounding (to nearest, ties to even)
// on the way back.
struct Float32 {
    using Stored = float;
    using Real = float;
    static ROPEWALK_INLINE Real load(Stored x) { return x; }
    static ROPEWALK_INLINE Stored store(Real x) { return x; }
};

struct Float64 {
    using Stored = double;
    using Real = double;
    static ROPEWALK_INLINE Real load(Stored x) { return x; }
    static ROPEWALK_INLINE Stored store(Real x) { return x; }
};

struct Bfloat16 {
    using Stored = uint16_t;
    using Real = float;
    // The upper 16 bits are the answer. A NaN needs no care: it comes from a bfloat16 or from the processor, its lower
    // 16 bits are 0, and so nothing is carried into the upper ones.
    static ROPEWALK_INLINE uint32_t rounded(float x) {
        const uint32_t bits = as_bits(x);
        return bits + 0x7fffu + ((bits >> 16) & 1u);
    }
    static ROPEWALK_INLINE Real load(Stored x) { return as_float(static_cast<uint32_t>(x) << 16); }
    static ROPEWALK_INLINE Stored store(Real x) { return static_cast<Stored>(rounded(x) >> 16); }

    // Two neighbours are one 32-bit word, and each widens and rounds within its lane: nothing has to be moved.
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    static ROPEWALK_INLINE Real left(uint32_t word) { return as_float(word & 0xffff0000u); }
    static ROPEWALK_INLINE Real right(uint32_t word) { return as_float(word << 16); }
    static ROPEWALK_INLINE uint32_t word(Real left, Real right) {
        return (rounded(left) & 0xffff0000u) | (rounded(right) >> 16);
    }
#else
    static ROPEWALK_INLINE Real left(uint32_t word) { return as_float(word << 16); }
    static ROPEWALK_INLINE Real right(uint32_t word) { return as_float(word & 0xffff0000u); }
    static ROPEWALK_INLINE uint32_t word(Real left, Real right) {
        return (rounded(left) >> 16) | (rounded(right) & 0xffff0000u);
    }
#endif
};

struct Float16 {
    using Stored = uint16_t;
    using Real = float;
    static ROPEWALK_INLINE Real load(Stored x) {
        const uint32_t sign = (static_cast<uint32_t>(x) & 0x8000u) << 16;
        const uint32_t magnitude = static_cast<uint32_t>(x) & 0x7fffu;
        // shifted, the exponent is 112 too small: a product mends it, for subnormal numbers too
        const uint32_t finite = as_bits(as_float(magnitude << 13) * as_float(0x77800000u));
        const uint32_t special = 0x7f800000u | (magnitude << 13);
        return as_float(sign | (magnitude >= 0x7c00u ? special : finite));
    }
    static ROPEWALK_INLINE Stored store(Real x) {
        const uint32_t bits = as_bits(x);
        const uint32_t sign = (bits >> 16) & 0x8000u;
        const uint32_t magnitude = bits & 0x7fffffffu;
        const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
        // adding 0.5 leaves the bits of a subnormal result, rounded, at the low end
        const uint32_t small = as_bits(as_float(magnitude) + 0.5f) - 0x3f000000u;
        const uint32_t special = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
        uint32_t out = magnitude < 0x38800000u ? small : normal;
        out = magnitude >= 0x47800000u ? special : out;
        return static_cast<Stored>(sign | out);
    }
};

// ---------------------------------------------------------------------------------------------- rows

// Coefficients of one token: a' = a·c0 - b·s0, b' = b·c1 + a·s1. For a rotation c1 is c0 and s1 is s0.
template <class Real>
struct Coefficients {
    const Real *c0, *s0, *c1, *s1;
};

// In place the pointers are equal: each step reads both its channels before it writes them, so no step needs another.
template <class T>
ROPEWALK_INLINE void half_rotation(const typename T::Stored *a, const typename T::Stored *b, typename T::Stored *out_a,
                                   typename T::Stored *out_b, const typename T::Real *c, const typename T::Real *s,
                                   int64_t count) {
    ROPEWALK_SIMD
    for (int64_t j = 0; j < count; ++j) {
        const typename T::Real x = T::load(a[j]), y = T::load(b[j]);
        out_a[j] = T::store(x * c[j] - y * s[j]);
        out_b[j] = T::store(y * c[j] + x * s[j]);
    }
}

template <class T>
ROPEWALK_INLINE void interleaved_rotation(const typename T::Stored *in, typename T::Stored *out,
                                          const typename T::Real *c, const typename T::Real *s, int64_t count) {
    ROPEWALK_SIMD
    for (int64_t j = 0; j < count; ++j) {
        const typename T::Real x = T::load(in[2 * j]), y = T::load(in[2 * j + 1]);
        out[2 * j] = T::store(x * c[j] - y * s[j]);
        out[2 * j + 1] = T::store(y * c[j] + x * s[j]);
    }
}

ROPEWALK_INLINE uint32_t word_at(const uint16_t *from) {
    uint32_t word;
    memcpy(&word, from, 4);
    return word;
}

// The coefficients come arranged (see below): those of the even steps, then those of the odd ones.
template <>
ROPEWALK_INLINE void half_rotation<Bfloat16>(const uint16_t *a, const uint16_t *b, uint16_t *out_a, uint16_t *out_b,
                                             const float *c, const float *s, int64_t count) {
    const int64_t words = count / 2;
    const float *odd_c = c + words, *odd_s = s + words;
    ROPEWALK_SIMD
    for (int64_t j = 0; j < words; ++j) {
        const uint32_t word_a = word_at(a + 2 * j), word_b = word_at(b + 2 * j);
        const float x = Bfloat16::left(word_a), y = Bfloat16::left(word_b);
        const float next_x = Bfloat16::right(word_a), next_y = Bfloat16::right(word_b);
        const uint32_t turned_a =
            Bfloat16::word(x * c[j] - y * s[j], next_x * odd_c[j] - next_y * odd_s[j]);
        const uint32_t turned_b =
            Bfloat16::word(y * c[j] + x * s[j], next_y * odd_c[j] + next_x * odd_s[j]);
        memcpy(out_a + 2 * j, &turned_a, 4);
        memcpy(out_b + 2 * j, &turned_b, 4);
    }
    if (count % 2) {
        const int64_t last = count - 1;
        const float x = Bfloat16::load(a[last]), y = Bfloat16::load(b[last]);
        out_a[last] = Bfloat16::store(x * c[last] - y * s[last]);
        out_b[last] = Bfloat16::store(y * c[last] + x * s[last]);
    }
}

template <>
ROPEWALK_INLINE void interleaved_rotation<Bfloat16>(const uint16_t *in, uint16_t *out, const float *c, const float *s,
                                                    int64_t count) {
    ROPEWALK_SIMD
    for (int64_t j = 0; j < count; ++j) {
        const uint32_t word = word_at(in + 2 * j);
        const float x = Bfloat16::left(word), y = Bfloat16::right(word);
        const uint32_t turned = Bfloat16::word(x * c[j] - y * s[j], y * c[j] + x * s[j]);
        memcpy(out + 2 * j, &turned, 4);
    }
}

#if defined(ROPEWALK_F16C)
// The one place with intrinsics: processors convert eight float16 at once, and compilers do not find that by themselves.
ROPEWALK_INLINE __m256 eight_at(const uint16_t *from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from)));
}

ROPEWALK_INLINE void put_eight(uint16_t *to, __m256 values) {
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to), _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
}

template <>
ROPEWALK_INLINE void half_rotation<Float16>(const uint16_t *a, const uint16_t *b, uint16_t *out_a, uint16_t *out_b,
                                            const float *c, const float *s, int64_t count) {
    int64_t j = 0;
    for (; j + 8 <= count; j += 8) {
        const __m256 x = eight_at(a + j), y = eight_at(b + j);
        const __m256 cos_j = _mm256_loadu_ps(c + j), sin_j = _mm256_loadu_ps(s + j);
        put_eight(out_a + j, _mm256_fmsub_ps(x, cos_j, _mm256_mul_ps(y, sin_j)));
        put_eight(out_b + j, _mm256_fmadd_ps(y, cos_j, _mm256_mul_ps(x, sin_j)));
    }
    for (; j < count; ++j) {
        const float x = Float16::load(a[j]), y = Float16::load(b[j]);
        out_a[j] = Float16::store(x * c[j] - y * s[j]);
        out_b[j] = Float16::store(y * c[j] + x * s[j]);
    }
}

template <>
ROPEWALK_INLINE void interleaved_rotation<Float16>(const uint16_t *in, uint16_t *out, const float *c, const float *s,
                                                   int64_t count) {
    const __m256i doubled = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    int64_t j = 0;
    for (; j + 4 <= count; j += 4) {
        const __m256 both = eight_at(in + 2 * j), swapped = _mm256_permute_ps(both, 0xb1);
        const __m256 cos_j = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(c + j)), doubled);
        const __m256 sin_j = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(s + j)), doubled);
        put_eight(out + 2 * j, _mm256_fmaddsub_ps(both, cos_j, _mm256_mul_ps(swapped, sin_j)));
    }
    for (; j < count; ++j) {
        const float x = Float16::load(in[2 * j]), y = Float16::load(in[2 * j + 1]);
        out[2 * j] = Float16::store(x * c[j] - y * s[j]);
        out[2 * j + 1] = Float16::store(y * c[j] + x * s[j]);
    }
}
#endif

// Any run, one angle or two.
template <class T>
ROPEWALK_INLINE void any_run(const Run &run, const typename T::Stored *in, typename T::Stored *out,
                             const Coefficients<typename T::Real> &k) {
    const int64_t step = run.interleaved ? 2 : 1;
    const typename T::Stored *a = in + run.first, *b = in + run.second;
    typename T::Stored *out_a = out + run.first, *out_b = out + run.second;
    const typename T::Real *c0 = k.c0 + run.pair, *s0 = k.s0 + run.pair, *c1 = k.c1 + run.pair, *s1 = k.s1 + run.pair;
    for (int64_t j = 0; j < run.count; ++j) {
        const typename T::Real x = T::load(a[step * j]), y = T::load(b[step * j]);
        out_a[step * j] = T::store(x * c0[j] - y * s0[j]);
        out_b[step * j] = T::store(y * c1[j] + x * s1[j]);
    }
}

// Heads of one token: they share its coefficients. The heads are the inner loop, so that a run is looked at once.
template <class T>
ROPEWALK_INLINE void turn_heads(const Job &job, const typename T::Stored *in, int64_t in_step, typename T::Stored *out,
                                int64_t out_step, int64_t heads, const Coefficients<typename T::Real> &k,
                                bool rotation) {
    for (int64_t r = 0; r < job.table.run_count; ++r) {
        const Run run = job.table.runs[r];
        const typename T::Real *c = k.c0 + run.pair, *s = k.s0 + run.pair;
        if (!rotation)
            for (int64_t h = 0; h < heads; ++h) any_run<T>(run, in + h * in_step, out + h * out_step, k);
        else if (run.interleaved)
            for (int64_t h = 0; h < heads; ++h)
                interleaved_rotation<T>(in + h * in_step + run.first, out + h * out_step + run.first, c, s, run.count);
        else
            for (int64_t h = 0; h < heads; ++h) {
                const typename T::Stored *row = in + h * in_step;
                typename T::Stored *to = out + h * out_step;
                half_rotation<T>(row + run.first, row + run.second, to + run.first, to + run.second, c, s, run.count);
            }
    }
    if (in != out)
        for (int64_t g = 0; g < job.table.gap_count; ++g) {
            const Gap gap = job.table.gaps[g];
            const size_t bytes = static_cast<size_t>(gap.count) * sizeof(typename T::Stored);
            for (int64_t h = 0; h < heads; ++h)
                memcpy(out + h * out_step + gap.start, in + h * in_step + gap.start, bytes);
        }
}

// ---------------------------------------------------------------------------------------------- angles

// A position is taken apart once for each axis: by table where it is a whole number below 2^20, else as a float64.
struct Place {
    const double *fine_cos, *fine_sin, *coarse_cos, *coarse_sin;  // rows, or null
    double value, sign;
};

ROPEWALK_INLINE double position_at(const Positions &positions, int64_t offset) {
    switch (positions.type) {
        case PositionType::i64: return static_cast<double>(reinterpret_cast<const int64_t *>(positions.data)[offset]);
        case PositionType::i32: return static_cast<double>(reinterpret_cast<const int32_t *>(positions.data)[offset]);
        case PositionType::f64: return reinterpret_cast<const double *>(positions.data)[offset];
        case PositionType::f32: return static_cast<double>(reinterpret_cast<const float *>(positions.data)[offset]);
        default: return 0.0;
    }
}

ROPEWALK_INLINE Place place_of(const Job &job, int64_t axis, int64_t batch, int64_t token) {
    const Positions &p = job.positions;
    const double value = p.data ? position_at(p, axis * p.axis + batch * p.batch + token * p.seq)
                                : static_cast<double>(token);
    Place place = {nullptr, nullptr, nullptr, nullptr, value, value < 0 ? -1.0 : 1.0};
    const double size = value < 0 ? -value : value;
    if (job.table.fine_cos && size < static_cast<double>(rows * rows)) {
        const int64_t whole = static_cast<int64_t>(size);
        if (static_cast<double>(whole) == size) {
            const int64_t fine = (whole & (rows - 1)) * job.table.columns, coarse = (whole / rows) * job.table.columns;
            place.fine_cos = job.table.fine_cos + fine;
            place.fine_sin = job.table.fine_sin + fine;
            place.coarse_cos = job.table.coarse_cos + coarse;
            place.coarse_sin = job.table.coarse_sin + coarse;
        }
    }
    return place;
}

template <class Real>
ROPEWALK_INLINE void angles_between(const Job &job, const Place &place, int64_t from, int64_t to, Real *cos_out,
                                    Real *sin_out) {
    const double scale = job.scale, turned = job.transpose ? -scale : scale;
    if (place.fine_cos) {
        const double *fc = place.fine_cos, *fs = place.fine_sin, *cc = place.coarse_cos, *cs = place.coarse_sin;
        const double signed_scale = turned * place.sign;
        ROPEWALK_SIMD
        for (int64_t c = from; c < to; ++c) {
            cos_out[c] = static_cast<Real>((fc[c] * cc[c] - fs[c] * cs[c]) * scale);
            sin_out[c] = static_cast<Real>((fs[c] * cc[c] + fc[c] * cs[c]) * signed_scale);
        }
        return;
    }
    for (int64_t c = from; c < to; ++c) {
        const double angle = place.value * job.table.speeds[c];
        cos_out[c] = static_cast<Real>(cos(angle) * scale);
        sin_out[c] = static_cast<Real>(sin(angle) * turned);
    }
}

template <class Real>
ROPEWALK_INLINE void coefficients_of(const Job &job, int64_t batch, int64_t token, Real *cos_out, Real *sin_out) {
    const int64_t columns = job.table.columns;
    if (job.table.axes == 1) {
        angles_between(job, place_of(job, 0, batch, token), 0, columns, cos_out, sin_out);
        return;
    }
    int64_t from = 0;
    while (from < columns) {  // one stretch of columns for each axis, in whatever order they come
        const int64_t axis = job.table.column_axis[from];
        int64_t to = from + 1;
        while (to < columns && job.table.column_axis[to] == axis) ++to;
        angles_between(job, place_of(job, axis, batch, token), from, to, cos_out, sin_out);
        from = to;
    }
}

// bfloat16 halves are turned two steps at a time: put the even steps of each such run before its odd ones.
template <class T>
ROPEWALK_INLINE void arrange(const Table &, const typename T::Real *, typename T::Real *) {}

template <>
ROPEWALK_INLINE void arrange<Bfloat16>(const Table &table, const float *from, float *to) {
    for (int64_t r = 0; r < table.run_count; ++r) {
        const Run &run = table.runs[r];
        const float *source = from + run.pair;
        float *target = to + run.pair;
        if (run.interleaved) {
            memcpy(target, source, static_cast<size_t>(run.count) * sizeof(float));
            continue;
        }
        const int64_t words = run.count / 2;
        ROPEWALK_SIMD
        for (int64_t j = 0; j < words; ++j) {
            target[j] = source[2 * j];
            target[words + j] = source[2 * j + 1];
        }
        if (run.count % 2) target[run.count - 1] = source[run.count - 1];
    }
}

// ---------------------------------------------------------------------------------------------- tokens

constexpr int64_t block = 16;            // tokens whose coefficients are kept at hand
constexpr int64_t on_stack = 32 * 1024;  // bytes of coefficients that need no allocation

template <class T>
struct needs_arranging {
    static constexpr bool value = false;
};
template <>
struct needs_arranging<Bfloat16> {
    static constexpr bool value = true;
};

template <class T>
void turn_tokens(const Job &job, int64_t begin, int64_t end) {
    using Real = typename T::Real;
    using Stored = typename T::Stored;
    const int64_t columns = job.table.columns, pairs = job.table.pairs, width = 2 * columns;
    const bool rotation = columns == pairs, arranged = needs_arranging<T>::value && rotation;
    alignas(64) Real small[on_stack / sizeof(Real)];
    const int64_t fitting = width ? static_cast<int64_t>(on_stack / sizeof(Real)) / width - 1 : block;
    const int64_t step = fitting >= block ? block : (fitting > 0 ? fitting : 1);
    Real *buffer = fitting > 0 ? small : static_cast<Real *>(malloc(sizeof(Real) * 2 * static_cast<size_t>(width)));
    if (!buffer) abort();  // less than a megabyte: the machine is past saving
    Real *const spare = buffer + step * width;
    for (int64_t start = begin; start < end; start += step) {
        const int64_t count = end - start < step ? end - start : step;
        Coefficients<Real> k[block];
        for (int64_t t = 0; t < count; ++t) {
            Real *cos_out = buffer + t * width, *sin_out = cos_out + columns;
            Real *cos_made = arranged ? spare : cos_out, *sin_made = cos_made + columns;
            coefficients_of(job, (start + t) / job.seq, (start + t) % job.seq, cos_made, sin_made);
            if (arranged) {
                arrange<T>(job.table, cos_made, cos_out);
                arrange<T>(job.table, sin_made, sin_out);
            }
            k[t] = {cos_out, sin_out, cos_out, sin_out};
            if (!rotation) {
                k[t].c1 = cos_out + pairs;
                k[t].s1 = sin_out + pairs;
                if (job.transpose) {  // the sine of each channel's angle acts on the other one
                    k[t].s0 = sin_out + pairs;
                    k[t].s1 = sin_out;
                }
            }
        }
        for (int64_t v = 0; v < job.view_count; ++v) {
            const View &view = job.views[v];
            const Stored *in = reinterpret_cast<const Stored *>(view.in);
            Stored *out = reinterpret_cast<Stored *>(view.out);
            int64_t from[block], to[block];  // of each token; divisions cost more than a short row
            for (int64_t t = 0; t < count; ++t) {
                const int64_t b = (start + t) / job.seq, token = (start + t) % job.seq;
                from[t] = b * view.in_batch + token * view.in_seq;
                to[t] = b * view.out_batch + token * view.out_seq;
            }
            if (view.in_head <= view.in_seq) {  // walk memory in its own order
                for (int64_t t = 0; t < count; ++t)
                    turn_heads<T>(job, in + from[t], view.in_head, out + to[t], view.out_head, view.heads, k[t],
                                  rotation);
            } else {
                for (int64_t h = 0; h < view.heads; ++h)
                    for (int64_t t = 0; t < count; ++t)
                        turn_heads<T>(job, in + from[t] + h * view.in_head, 0, out + to[t] + h * view.out_head, 0, 1,
                                      k[t], rotation);
            }
        }
    }
    if (buffer != small) free(buffer);
}

template <class T>
void turn_all(const Job &job) {
    const int64_t tokens = job.batch * job.seq;
#if defined(_OPENMP)
    if (job.threads > 1) {
        const int64_t parts = job.threads;
#pragma omp parallel for schedule(static) num_threads(job.threads)
        for (int64_t part = 0; part < parts; ++part)
            turn_tokens<T>(job, tokens * part / parts, tokens * (part + 1) / parts);
        return;
    }
#endif
    turn_tokens<T>(job, 0, tokens);
}

}  // namespace

void ROPEWALK_VARIANT(const Job &job) {
    switch (job.dtype) {
        case Dtype::f32: turn_all<Float32>(job); break;
        case Dtype::f64: turn_all<Float64>(job); break;
        case Dtype::bf16: turn_all<Bfloat16>(job); break;
        case Dtype::f16: turn_all<Float16>(job); break;
    }
}

}  // namespace ropewalk
