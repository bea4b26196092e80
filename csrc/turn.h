// What the bindings and the compiled variants of the kernel agree on. Plain data only: no framework, no C++ library.
#pragma once

#include <cstdint>

namespace ropewalk {

enum class Dtype : int { f32 = 0, f64 = 1, bf16 = 2, f16 = 3 };
enum class PositionType : int { none = 0, i64 = 1, i32 = 2, f64 = 3, f32 = 4 };

// What a call answers: 0, or why nothing was turned.
enum Status : int { ok = 0, misfit = 1, bad_position = 2 };

constexpr int64_t rows = 1024;  // of the fine and of the coarse table
constexpr int64_t max_position = int64_t{1} << 53;

// A run of pairs whose channels lie side by side: (first + j, second + j), or (first + 2j, first + 2j + 1).
struct Run {
    int64_t first, second, pair, count;
    bool interleaved;
};

// Channels that no pair turns.
struct Gap {
    int64_t start, count;
};

// The pair table, taken apart for the kernel. `columns` is the number of angles: `pairs`, or twice that for a map
// that is no rotation, whose second channels turn by angles of their own.
struct Table {
    int64_t head_dim, pairs, columns, axes;
    const double *speeds;           // [columns] radians a position
    const int64_t *column_axis;     // [columns]
    const double *fine_cos, *fine_sin, *coarse_cos, *coarse_sin;  // [rows, columns], or null: angles directly
    const Run *runs;
    int64_t run_count;
    const Gap *gaps;
    int64_t gap_count;
};

// One tensor [batch, seq, heads, head_dim]; strides count elements, that of the last dimension is 1.
struct View {
    const char *in;
    char *out;
    int64_t heads;
    int64_t in_batch, in_seq, in_head;
    int64_t out_batch, out_seq, out_head;
};

struct Positions {
    const char *data;  // null: 0 … seq - 1
    PositionType type;
    int64_t axis, batch, seq;  // strides in elements
};

struct Job {
    Table table;
    Positions positions;
    const View *views;
    int64_t view_count;
    int64_t batch, seq;
    double scale;    // g, or 1/g
    bool transpose;  // turn the other way
    Dtype dtype;
    int threads;
};

using Turn = void (*)(const Job &);

void turn_baseline(const Job &job);
void turn_avx2(const Job &job);

}  // namespace ropewalk
