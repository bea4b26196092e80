// Python's side of the kernel: one general call, and a short one for torch tensors.
#include <string_view>

#include "call.h"

namespace ropewalk {
namespace {

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

// tensors: (in, out, shape, strides, strides of out) for each of one or two. positions: None, or (address, type, shape,
// strides).
int turn(const Plan &plan, nb::tuple tensors, nb::handle positions, int dtype, bool heads_first, bool one_for_all,
         double scale, bool transpose, int memory) {
    if (tensors.size() < 1 || tensors.size() > 2 || dtype < 0 || dtype > 3) return misfit;
    Call call(plan, dtype, heads_first, one_for_all);
    for (size_t i = 0; i < tensors.size(); ++i) {
        PyObject *one = PyTuple_GET_ITEM(tensors.ptr(), static_cast<Py_ssize_t>(i));
        if (!PyTuple_Check(one) || PyTuple_GET_SIZE(one) != 5) return misfit;
        const char *in = static_cast<const char *>(PyLong_AsVoidPtr(PyTuple_GET_ITEM(one, 0)));
        char *out = static_cast<char *>(PyLong_AsVoidPtr(PyTuple_GET_ITEM(one, 1)));
        if (PyErr_Occurred()) throw nb::python_error();
        if (!call.add(in, out, PyTuple_GET_ITEM(one, 2), PyTuple_GET_ITEM(one, 3), PyTuple_GET_ITEM(one, 4)))
            return misfit;
    }
    if (!positions.is_none()) {
        PyObject *given = positions.ptr();
        if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) != 4) return misfit;
        const char *data = static_cast<const char *>(PyLong_AsVoidPtr(PyTuple_GET_ITEM(given, 0)));
        const long type = PyLong_AsLong(PyTuple_GET_ITEM(given, 1));
        if (PyErr_Occurred()) throw nb::python_error();
        if (!call.set_positions(data, type, PyTuple_GET_ITEM(given, 2), PyTuple_GET_ITEM(given, 3))) return misfit;
    }
    return call.run(active.turn, scale, transpose, memory);
}

// The short way for torch: what Python would look up one by one is looked up here. torch itself is not linked: tensors
// are asked by their own attributes, and anything unusual is answered by None, so that Python takes the long way.
class Quick {
  public:
    // dtypes in the order of Dtype, position_dtypes in that of PositionType, from its second on; recording() says
    // whether gradients are recorded; each of quiet must answer None, 0 or False.
    Quick(nb::object tensor, nb::object empty_like, nb::object recording, nb::tuple dtypes, nb::tuple position_dtypes,
          nb::tuple quiet)
        : tensor_(tensor), empty_like_(empty_like), recording_(recording), dtypes_(dtypes),
          position_dtypes_(position_dtypes), quiet_(quiet) {}

    nb::object call(const Plan &plan, nb::handle q, nb::handle k, nb::handle position_ids, bool heads_first,
                    bool one_for_all, Py_ssize_t dims, double scale, bool in_place) const {
        for (nb::handle question : quiet_)
            if (is_true(nb::steal(checked(PyObject_CallNoArgs(question.ptr()))))) return nb::none();
        if (!plain(q) || !plain(k)) return nb::none();
        const bool grad = is_true(q.attr(requires_grad_)) || is_true(k.attr(requires_grad_));
        if (grad && (in_place || is_true(recording_()))) return nb::none();
        const nb::object dtype = q.attr(dtype_);
        const int code = place_in(dtypes_, dtype);
        if (code < 0 || !k.attr(dtype_).is(dtype)) return nb::none();
        Call call(plan, code, heads_first, one_for_all);
        const nb::object q_out = in_place ? nb::borrow(q) : empty_like_(q);
        const nb::object k_out = in_place ? nb::borrow(k) : empty_like_(k);
        if (!add(call, q, q_out, dims) || !add(call, k, k_out, dims)) return nb::none();
        if (!position_ids.is_none()) {
            if (!plain(position_ids) || is_true(position_ids.attr(requires_grad_))) return nb::none();
            const int type = place_in(position_dtypes_, position_ids.attr(dtype_));
            const nb::object shape = position_ids.attr(shape_), strides = position_ids.attr(stride_)();
            if (type < 0 || !call.set_positions(address(position_ids), type + 1, shape.ptr(), strides.ptr()))
                return nb::none();
        }
        const int memory = in_place ? Memory::in_place : Memory::fresh;
        if (call.run(active.turn, scale, false, memory) != ok) return nb::none();
        return nb::make_tuple(q_out, k_out);
    }

  private:
    static PyObject *checked(PyObject *result) {
        if (!result) throw nb::python_error();
        return result;
    }

    static bool is_true(const nb::object &value) {
        const int truth = PyObject_IsTrue(value.ptr());
        if (truth < 0) throw nb::python_error();
        return truth;
    }

    static int place_in(const nb::tuple &among, const nb::object &value) {
        const Py_ssize_t count = PyTuple_GET_SIZE(among.ptr());
        for (Py_ssize_t i = 0; i < count; ++i)
            if (PyTuple_GET_ITEM(among.ptr(), i) == value.ptr()) return static_cast<int>(i);
        return -1;
    }

    // A tensor, no subclass, on the CPU, that is not to be read with its sign turned.
    bool plain(nb::handle x) const {
        return reinterpret_cast<PyObject *>(Py_TYPE(x.ptr())) == tensor_.ptr() && is_true(x.attr(is_cpu_)) &&
               !is_true(x.attr(is_neg_)());
    }

    char *address(nb::handle x) const {
        void *data = PyLong_AsVoidPtr(x.attr(data_ptr_)().ptr());
        if (PyErr_Occurred()) throw nb::python_error();
        return static_cast<char *>(data);
    }

    bool add(Call &call, nb::handle x, const nb::object &out, Py_ssize_t dims) const {
        const nb::object shape = x.attr(shape_), strides = x.attr(stride_)();
        if (!PyTuple_Check(shape.ptr()) || PyTuple_GET_SIZE(shape.ptr()) != dims) return false;
        if (out.is(x)) {
            char *data = address(x);
            return call.add(data, data, shape.ptr(), strides.ptr(), strides.ptr());
        }
        const nb::object out_strides = out.attr(stride_)();
        return call.add(address(x), address(out), shape.ptr(), strides.ptr(), out_strides.ptr());
    }

    nb::object tensor_, empty_like_, recording_;
    nb::tuple dtypes_, position_dtypes_, quiet_;
    // interned once: a name made anew for each question would cost as much as the question
    nb::str is_cpu_ = name("is_cpu"), is_neg_ = name("is_neg"), requires_grad_ = name("requires_grad"),
            dtype_ = name("dtype"), shape_ = name("shape"), stride_ = name("stride"), data_ptr_ = name("data_ptr");

    static nb::str name(const char *text) { return nb::steal<nb::str>(checked(PyUnicode_InternFromString(text))); }
};

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
    m.doc() = "The compiled kernel; ropewalk.turning.kernel loads it.";
    nb::class_<Plan>(m, "Plan", "A pair table made ready for the kernel.")
        .def(nb::init<int64_t, int64_t, Integers, Integers, Integers, Doubles>())
        .def("set_tables", &Plan::set_tables)
        .def_prop_ro("run_count", &Plan::run_count);
    m.def("turn", &turn, nb::arg("plan"), nb::arg("tensors"), nb::arg("positions").none(), nb::arg("dtype"),
          nb::arg("heads_first"), nb::arg("one_for_all"), nb::arg("scale"), nb::arg("transpose"), nb::arg("memory"));
    nb::class_<Quick>(m, "Quick", "The short way for torch tensors.")
        .def(nb::init<nb::object, nb::object, nb::object, nb::tuple, nb::tuple, nb::tuple>())
        .def("__call__", &Quick::call, nb::arg("plan"), nb::arg("q"), nb::arg("k"), nb::arg("position_ids").none(),
             nb::arg("heads_first"), nb::arg("one_for_all"), nb::arg("dims"), nb::arg("scale"), nb::arg("in_place"));
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
