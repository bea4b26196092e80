// One call of the kernel, put together from shapes, strides and addresses; everything is checked before anything is
// written. What does not fit is answered by a number; the words are said in Python.
#pragma once

#include <cstdlib>
#include <limits>
#include <utility>

#if defined(_OPENMP)
#include <omp.h>
#endif
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "plan.h"

namespace ropewalk {

struct Numbers {  // of a tuple of Python integers, at most 4
    int64_t value[4];
    int64_t count;
};

inline bool numbers_of(PyObject *tuple, Numbers &out) {
    if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) > 4) return false;
    out.count = PyTuple_GET_SIZE(tuple);
    for (int64_t i = 0; i < out.count; ++i) {
        out.value[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i));
        if (out.value[i] == -1 && PyErr_Occurred()) {
            PyErr_Clear();
            return false;
        }
    }
    return true;
}

// Give the strides of [batch, seq, heads] for a tensor of 3 or 4 dimensions in either layout.
inline bool placed(const Numbers &of, bool heads_first, bool is_shape, int64_t out[3]) {
    if (of.count != 3 && of.count != 4) return false;
    const int64_t *last = of.value + of.count - 3;
    out[0] = of.count == 4 ? of.value[0] : (is_shape ? 1 : 0);
    out[1] = heads_first ? last[1] : last[0];
    out[2] = heads_first ? last[0] : last[1];
    return true;
}

inline bool positions_fit(const Numbers &shape, const Numbers &strides, int64_t batch, int64_t seq, int64_t axes,
                   bool one_for_all, Positions &out) {
    if (shape.count != strides.count || shape.count < 1 || shape.count > 3) return false;
    const int64_t dims = shape.count;
    if (shape.value[dims - 1] != seq) return false;
    if (dims == 3 ? shape.value[0] != axes : (axes != 1 && !one_for_all)) return false;
    const int64_t given = dims >= 2 ? shape.value[dims - 2] : 1;
    if (given != 1 && given != batch) return false;
    out.axis = dims == 3 ? strides.value[0] : 0;
    out.batch = given == 1 ? 0 : strides.value[dims - 2];
    out.seq = strides.value[dims - 1];
    return true;
}

template <class T>
bool all_usable(const T *data, const Positions &p, int64_t axes, int64_t batch, int64_t seq, double fastest) {
    const int64_t rows_given = p.batch ? batch : 1, axes_given = p.axis ? axes : 1;
    for (int64_t a = 0; a < axes_given; ++a)
        for (int64_t b = 0; b < rows_given; ++b)
            for (int64_t s = 0; s < seq; ++s) {
                const T value = data[a * p.axis + b * p.batch + s * p.seq];
                if constexpr (std::numeric_limits<T>::is_integer) {
                    if (static_cast<int64_t>(value) > max_position || static_cast<int64_t>(value) < -max_position)
                        return false;
                }
                if (!std::isfinite(static_cast<double>(value) * fastest)) return false;
            }
    return true;
}

// Integers within 2^53, floats finite, and no angle beyond float64.
inline bool all_usable(const Positions &p, int64_t axes, int64_t batch, int64_t seq, double fastest) {
    switch (p.type) {
        case PositionType::i64:
            return all_usable(reinterpret_cast<const int64_t *>(p.data), p, axes, batch, seq, fastest);
        case PositionType::i32:
            return all_usable(reinterpret_cast<const int32_t *>(p.data), p, axes, batch, seq, fastest);
        case PositionType::f64:
            return all_usable(reinterpret_cast<const double *>(p.data), p, axes, batch, seq, fastest);
        case PositionType::f32:
            return all_usable(reinterpret_cast<const float *>(p.data), p, axes, batch, seq, fastest);
        default: return true;
    }
}

constexpr int64_t item_size[] = {4, 8, 2, 2};         // by Dtype
constexpr int64_t position_size[] = {1, 8, 4, 8, 4};  // by PositionType

inline bool aligned(const char *data, int64_t size) {
    return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(size) == 0;
}

// New memory comes page by page, and each page costs a trap; large results ask Linux for large pages first. It is a hint
// for whole 2 MB pieces within the result, and changes nothing where the memory is there already.
constexpr uintptr_t large_page = 2 * 1024 * 1024;
constexpr int64_t worth_large_pages = 4 * 1024 * 1024;

inline void ask_for_large_pages(char *data, int64_t bytes) {
#if defined(MADV_HUGEPAGE)
    if (bytes < worth_large_pages) return;
    const uintptr_t begin = (reinterpret_cast<uintptr_t>(data) + large_page - 1) / large_page * large_page;
    const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + static_cast<uintptr_t>(bytes)) / large_page * large_page;
    if (begin < end) madvise(reinterpret_cast<void *>(begin), end - begin, MADV_HUGEPAGE);
#else
    (void)data, (void)bytes;
#endif
}

// Whether any two elements of a view, or of two, may lie on one another; judged by their strides and outer bounds alone.
inline bool may_overlap(const View *views, int64_t count, const Job &job, int64_t width, int64_t size) {
    const char *begin[2], *end[2];
    for (int64_t v = 0; v < count; ++v) {
        std::pair<int64_t, int64_t> dims[4] = {{std::abs(views[v].out_batch), job.batch},
                                               {std::abs(views[v].out_seq), job.seq},
                                               {std::abs(views[v].out_head), views[v].heads},
                                               {1, width}};
        std::sort(dims, dims + 4);
        int64_t reach = 0, below = 0, above = 0;
        for (const auto &[stride, entries] : dims)
            if (entries > 1) {
                if (stride <= reach) return true;
                reach += stride * (entries - 1);
            }
        for (const auto &[stride, entries] : {std::pair{views[v].out_batch, job.batch},
                                              std::pair{views[v].out_seq, job.seq},
                                              std::pair{views[v].out_head, views[v].heads}})
            (stride < 0 ? below : above) += stride * (entries - 1);
        begin[v] = views[v].out + below * size;
        end[v] = views[v].out + (above + width) * size;
    }
    return count == 2 && begin[0] < end[1] && begin[1] < end[0];
}

constexpr int64_t worth_threads = 128 * 1024;  // bytes turned; below, waking a thread takes longer than the work

// What a call is told of the memory that it writes to.
enum Memory : int {
    checked = 0,   // the caller has looked
    fresh = 1,     // new and contiguous
    in_place = 2,  // the tensors themselves, not looked at yet
};

class Call {
  public:
    Call(const Plan &plan, int dtype, bool heads_first, bool one_for_all)
        : plan_(plan), dtype_(dtype), heads_first_(heads_first), one_for_all_(one_for_all) {
        job_.table = plan.table();
        job_.dtype = static_cast<Dtype>(dtype);
    }

    // Shapes and strides are tuples; strides count elements.
    bool add(const char *in, char *out, PyObject *shape, PyObject *strides, PyObject *out_strides) {
        Numbers size, from, to;
        if (count_ == 2 || !numbers_of(shape, size) || !numbers_of(strides, from) || !numbers_of(out_strides, to))
            return false;
        int64_t dims[3], in_steps[3], out_steps[3];
        if (from.count != size.count || to.count != size.count || !placed(size, heads_first_, true, dims) ||
            !placed(from, heads_first_, false, in_steps) || !placed(to, heads_first_, false, out_steps))
            return false;
        const int64_t last = size.count - 1;
        if (size.value[last] != job_.table.head_dim || from.value[last] != 1 || to.value[last] != 1) return false;
        if (count_ == 0) {
            job_.batch = dims[0];
            job_.seq = dims[1];
        } else if (dims[0] != job_.batch || dims[1] != job_.seq) {
            return false;
        }
        if (!aligned(in, item_size[dtype_]) || !aligned(out, item_size[dtype_])) return false;
        heads_ += dims[2];
        views_[count_++] = {in,          out,          dims[2],      in_steps[0], in_steps[1],
                            in_steps[2], out_steps[0], out_steps[1], out_steps[2]};
        return true;
    }

    // After all tensors; without a call of it, positions are 0 … seq - 1.
    bool set_positions(const char *data, long type, PyObject *shape, PyObject *strides) {
        Numbers size, steps;
        if (type < 1 || type > 4 || !aligned(data, position_size[type]) || !numbers_of(shape, size) ||
            !numbers_of(strides, steps))
            return false;
        job_.positions.data = data;
        job_.positions.type = static_cast<PositionType>(type);
        given_ = true;
        return positions_fit(size, steps, job_.batch, job_.seq, job_.table.axes, one_for_all_, job_.positions);
    }

    Status run(Turn turn, double scale, bool transpose, int memory) {
        const int64_t tokens = job_.batch * job_.seq, width = job_.table.head_dim, size = item_size[dtype_];
        if (!given_ && job_.table.axes != 1 && !one_for_all_) return misfit;
        if (tokens == 0) return ok;
        if (given_ && !all_usable(job_.positions, job_.table.axes, job_.batch, job_.seq, plan_.fastest()))
            return bad_position;
        if (heads_ == 0) return ok;
        if (memory == in_place && may_overlap(views_, count_, job_, width, size)) return misfit;
        job_.views = views_;
        job_.view_count = count_;
        job_.scale = scale;
        job_.transpose = transpose;
        job_.threads = 1;
#if defined(_OPENMP)
        if (tokens * heads_ * width * size >= worth_threads)
            job_.threads = static_cast<int>(std::min<int64_t>(omp_get_max_threads(), tokens));
#endif
        nb::gil_scoped_release released;
        if (memory == fresh)
            for (int64_t v = 0; v < count_; ++v)
                ask_for_large_pages(views_[v].out, tokens * views_[v].heads * width * size);
        turn(job_);
        return ok;
    }

  private:
    const Plan &plan_;
    const int dtype_;
    const bool heads_first_, one_for_all_;
    bool given_ = false;
    int64_t count_ = 0, heads_ = 0;
    View views_[2];
    Job job_ = {};
};

}  // namespace ropewalk
