// Python's side of the kernel: takes shapes, strides and addresses, checks that all of it fits, and lets the variant
// for this processor do the work. What does not fit is answered by a number; the words are said in Python.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#if defined(_OPENMP)
#include <omp.h>
#endif
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "turn.h"

namespace nb = nanobind;

namespace ropewalk {
namespace {

using Doubles = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;
using Integers = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

struct Variant {
    const char *name;
    Turn turn;
};

// Best first.
std::vector<Variant> variants() {
    std::vector<Variant> found;
#if defined(ROPEWALK_HAS_AVX2)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) found.push_back({"avx2", turn_avx2});
#endif
    found.push_back({"baseline", turn_baseline});
    return found;
}

Variant active = variants().front();

// A pair table made ready: its runs and gaps found, and copies of the arrays that the kernel reads.
class Plan {
  public:
    Plan(int64_t head_dim, int64_t axes, Integers first, Integers second, Integers column_axis, Doubles speeds)
        : speeds_(speeds.data(), speeds.data() + speeds.size()),
          column_axis_(column_axis.data(), column_axis.data() + column_axis.size()) {
        const int64_t pairs = static_cast<int64_t>(first.size());
        const int64_t columns = static_cast<int64_t>(speeds_.size());
        const bool sizes = static_cast<int64_t>(second.size()) == pairs && columns >= pairs &&
                           static_cast<int64_t>(column_axis_.size()) == columns &&
                           (columns == pairs || columns == 2 * pairs) && head_dim > 0 && axes > 0;
        if (!sizes) throw nb::value_error("the columns of the pair table do not fit one another");
        std::vector<char> turned(static_cast<size_t>(head_dim), 0);
        for (int64_t i = 0; i < pairs; ++i)
            for (const int64_t channel : {first.data()[i], second.data()[i]}) {
                if (channel < 0 || channel >= head_dim || turned[static_cast<size_t>(channel)])
                    throw nb::value_error("a channel of the pair table is outside the head, or in two pairs");
                turned[static_cast<size_t>(channel)] = 1;
            }
        for (const int64_t axis : column_axis_)
            if (axis < 0 || axis >= axes) throw nb::value_error("an axis of the pair table is out of range");
        for (const double speed : speeds_) fastest_ = std::max(fastest_, std::fabs(speed));
        find_runs(first.data(), second.data(), pairs);
        find_gaps(turned);
        table_ = {head_dim,  pairs,   columns, axes,    speeds_.data(), column_axis_.data(),
                  nullptr,   nullptr, nullptr, nullptr, runs_.data(),   static_cast<int64_t>(runs_.size()),
                  gaps_.data(), static_cast<int64_t>(gaps_.size())};
    }

    // Without tables every angle is computed anew.
    void set_tables(Doubles fine_cos, Doubles fine_sin, Doubles coarse_cos, Doubles coarse_sin) {
        const Doubles given[] = {fine_cos, fine_sin, coarse_cos, coarse_sin};
        for (const Doubles &one : given)
            if (one.ndim() != 2 || one.shape(0) != static_cast<size_t>(rows) ||
                one.shape(1) != static_cast<size_t>(table_.columns))
                throw nb::value_error("a table must have 1024 rows and a column for each angle");
        kept_.assign(given, given + 4);
        table_.fine_cos = fine_cos.data();
        table_.fine_sin = fine_sin.data();
        table_.coarse_cos = coarse_cos.data();
        table_.coarse_sin = coarse_sin.data();
    }

    const Table &table() const { return table_; }

    int64_t run_count() const { return table_.run_count; }

    double fastest() const { return fastest_; }

  private:
    void find_runs(const int64_t *first, const int64_t *second, int64_t pairs) {
        for (int64_t i = 0; i < pairs; ++i) {
            if (!runs_.empty()) {
                Run &run = runs_.back();
                const int64_t step = run.interleaved ? 2 : 1;
                if (first[i] == run.first + step * run.count && second[i] == run.second + step * run.count) {
                    ++run.count;
                    continue;
                }
            }
            runs_.push_back({first[i], second[i], i, 1, second[i] == first[i] + 1});
        }
    }

    void find_gaps(const std::vector<char> &turned) {
        const int64_t width = static_cast<int64_t>(turned.size());
        for (int64_t c = 0; c < width; ++c) {
            if (turned[static_cast<size_t>(c)]) continue;
            if (!gaps_.empty() && gaps_.back().start + gaps_.back().count == c)
                ++gaps_.back().count;
            else
                gaps_.push_back({c, 1});
        }
    }

    std::vector<double> speeds_;
    std::vector<int64_t> column_axis_;
    std::vector<Run> runs_;
    std::vector<Gap> gaps_;
    std::vector<Doubles> kept_;
    Table table_;
    double fastest_ = 0;
};

struct Numbers {  // of a tuple of Python integers, at most 4
    int64_t value[4];
    int64_t count;
};

bool numbers_of(nb::handle given, Numbers &out) {
    PyObject *tuple = given.ptr();
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
bool placed(const Numbers &of, bool heads_first, bool is_shape, int64_t out[3]) {
    if (of.count != 3 && of.count != 4) return false;
    const int64_t *last = of.value + of.count - 3;
    out[0] = of.count == 4 ? of.value[0] : (is_shape ? 1 : 0);
    out[1] = heads_first ? last[1] : last[0];
    out[2] = heads_first ? last[0] : last[1];
    return true;
}

bool positions_fit(const Numbers &shape, const Numbers &strides, int64_t batch, int64_t seq, int64_t axes,
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
bool all_usable(const Positions &p, int64_t axes, int64_t batch, int64_t seq, double fastest) {
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

bool aligned(const char *data, int64_t size) {
    return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(size) == 0;
}

// New memory comes page by page, and each page costs a trap; large results ask Linux for large pages first. It is a hint
// for whole 2 MB pieces within the result, and changes nothing where the memory is there already.
constexpr uintptr_t large_page = 2 * 1024 * 1024;
constexpr int64_t worth_large_pages = 4 * 1024 * 1024;

void ask_for_large_pages(char *data, int64_t bytes) {
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
bool may_overlap(const View *views, int64_t count, const Job &job, int64_t width, int64_t size) {
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

// tensors: (in, out, shape, in strides, out strides) for each of one or two. positions: None, or (address, type,
// shape, strides). Strides count elements. memory says what the
// results are: 0, checked by the caller; 1, new and contiguous; 2, the tensors themselves, to be checked here.
int turn(const Plan &plan, nb::tuple tensors, nb::handle positions, int dtype, bool heads_first, bool one_for_all,
         double scale, bool transpose, int memory) {
    const Table &table = plan.table();
    View views[2];
    Job job = {};
    job.table = table;
    if (tensors.size() < 1 || tensors.size() > 2 || dtype < 0 || dtype > 3) return misfit;
    int64_t heads = 0;
    for (size_t i = 0; i < tensors.size(); ++i) {
        PyObject *one = PyTuple_GET_ITEM(tensors.ptr(), static_cast<Py_ssize_t>(i));
        if (!PyTuple_Check(one) || PyTuple_GET_SIZE(one) != 5) return misfit;
        Numbers shape, strides, out_strides;
        if (!numbers_of(PyTuple_GET_ITEM(one, 2), shape) || !numbers_of(PyTuple_GET_ITEM(one, 3), strides) ||
            !numbers_of(PyTuple_GET_ITEM(one, 4), out_strides))
            return misfit;
        int64_t size[3], in[3], out[3];
        if (strides.count != shape.count || out_strides.count != shape.count ||
            !placed(shape, heads_first, true, size) || !placed(strides, heads_first, false, in) ||
            !placed(out_strides, heads_first, false, out))
            return misfit;
        const int64_t last = shape.count - 1;
        const bool unit = strides.value[last] == 1 && out_strides.value[last] == 1;
        if (shape.value[last] != table.head_dim || (!unit && table.head_dim > 1)) return misfit;
        if (i == 0) {
            job.batch = size[0];
            job.seq = size[1];
        } else if (size[0] != job.batch || size[1] != job.seq) {
            return misfit;
        }
        heads += size[2];
        views[i] = {reinterpret_cast<const char *>(PyLong_AsVoidPtr(PyTuple_GET_ITEM(one, 0))),
                    reinterpret_cast<char *>(PyLong_AsVoidPtr(PyTuple_GET_ITEM(one, 1))),
                    size[2], in[0], in[1], in[2], out[0], out[1], out[2]};
        if (PyErr_Occurred()) throw nb::python_error();
        if (!aligned(views[i].in, item_size[dtype]) || !aligned(views[i].out, item_size[dtype])) return misfit;
    }
    if (!positions.is_none()) {
        PyObject *given = positions.ptr();
        Numbers shape, strides;
        if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) != 4 || !numbers_of(PyTuple_GET_ITEM(given, 2), shape) ||
            !numbers_of(PyTuple_GET_ITEM(given, 3), strides))
            return misfit;
        job.positions.data = reinterpret_cast<const char *>(PyLong_AsVoidPtr(PyTuple_GET_ITEM(given, 0)));
        const long type = PyLong_AsLong(PyTuple_GET_ITEM(given, 1));
        if (PyErr_Occurred()) throw nb::python_error();
        if (type < 1 || type > 4) return misfit;
        job.positions.type = static_cast<PositionType>(type);
        if (!aligned(job.positions.data, position_size[type])) return misfit;
        if (!positions_fit(shape, strides, job.batch, job.seq, table.axes, one_for_all, job.positions)) return misfit;
        if (job.batch * job.seq == 0) return ok;
        if (!all_usable(job.positions, table.axes, job.batch, job.seq, plan.fastest())) return bad_position;
    } else if (table.axes != 1 && !one_for_all) {
        return misfit;
    }
    if (job.batch * job.seq * heads == 0) return ok;
    const int64_t tokens = job.batch * job.seq;
    const int64_t bytes = tokens * heads * table.head_dim * item_size[dtype];
    job.views = views;
    job.view_count = static_cast<int64_t>(tensors.size());
    job.scale = scale;
    job.transpose = transpose;
    job.dtype = static_cast<Dtype>(dtype);
    job.threads = 1;
#if defined(_OPENMP)
    if (bytes >= worth_threads) {
        job.threads = static_cast<int>(std::min<int64_t>(omp_get_max_threads(), tokens));
    }
#endif
    if (memory == 2 && may_overlap(views, job.view_count, job, table.head_dim, item_size[dtype])) return misfit;
    nb::gil_scoped_release released;
    if (memory == 1)
        for (int64_t v = 0; v < job.view_count; ++v)
            ask_for_large_pages(views[v].out, tokens * views[v].heads * table.head_dim * item_size[dtype]);
    active.turn(job);
    return ok;
}

nb::list variant_names() {
    nb::list names;
    for (const Variant &one : variants()) names.append(one.name);
    return names;
}

void use_variant(const char *name) {
    for (const Variant &one : variants())
        if (std::string_view(one.name) == name) {
            active = one;
            return;
        }
    throw nb::value_error("this processor has no such variant");
}

}  // namespace
}  // namespace ropewalk

NB_MODULE(_kernel, m) {
    using namespace ropewalk;
    m.doc() = "The compiled kernel; turning/kernel.py is its only caller.";
    nb::class_<Plan>(m, "Plan", "A pair table made ready for the kernel.")
        .def(nb::init<int64_t, int64_t, Integers, Integers, Integers, Doubles>())
        .def("set_tables", &Plan::set_tables)
        .def_prop_ro("run_count", &Plan::run_count);
    m.def("turn", &turn, nb::arg("plan"), nb::arg("tensors"), nb::arg("positions").none(), nb::arg("dtype"),
          nb::arg("heads_first"), nb::arg("one_for_all"), nb::arg("scale"), nb::arg("transpose"), nb::arg("memory"));
    m.def("variants", &variant_names);
    m.def("use_variant", &use_variant);
    m.def("active_variant", [] { return active.name; });
    m.attr("openmp") =
#if defined(_OPENMP)
        true;
#else
        false;
#endif
}
