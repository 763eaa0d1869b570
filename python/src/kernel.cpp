// tack._core.Kernel: the object that @tack.kernel makes. Calling it is a vectorcall that converts
// the arguments and launches.
#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include "arguments.hpp"
#include "bindings.hpp"
#include "managed_tensor.hpp"
#include "program.hpp"

#include <structmember.h>  // needs Python.h before it

namespace tack::python {
namespace {

/// A value that the kernel's text refers to: a global or a closure's variable. The program depends
/// on it, so that a changed value is seen.
struct Captured {
    nb::object container;  // a dict of globals, or a cell
    nb::object key;        // the name, or None
    nb::object value;      // when the program was built; null where there was none

    /// Borrowed; null where there is none.
    PyObject* current() const {
        if (PyDict_Check(container.ptr()))
            return PyDict_GetItemWithError(container.ptr(), key.ptr());
        return PyCell_GET(container.ptr());
    }
};

/// Whether a program built for `a` is right for `b`: the same object, or the same number. Equality
/// is not enough: 1 and True, 0.0 and -0.0 are equal, NaN is not.
bool same_value(PyObject* a, PyObject* b) {
    if (a == b) return true;
    if (!a || !b || Py_TYPE(a) != Py_TYPE(b)) return false;
    if (PyFloat_CheckExact(a)) {
        const double x = PyFloat_AS_DOUBLE(a);
        const double y = PyFloat_AS_DOUBLE(b);
        return std::memcmp(&x, &y, sizeof x) == 0;
    }
    return PyLong_CheckExact(a) && PyObject_RichCompareBool(a, b, Py_EQ) == 1;
}

/// One built program with what was captured then. The GIL guards `users`.
struct Variant {
    std::vector<Captured> captured;
    kernel::Dispatcher dispatcher;
    int users = 0;  // launches that are running

    bool fits() const {
        for (const Captured& c : captured)
            if (!same_value(c.value.ptr(), c.current())) return false;
        return true;
    }
};

struct InUse {
    explicit InUse(Variant& v) : variant(v) { ++variant.users; }
    InUse(const InUse&) = delete;
    InUse& operator=(const InUse&) = delete;
    ~InUse() { --variant.users; }
    Variant& variant;
};

struct State {
    nb::object build;      // () -> Program; fills `captured`
    nb::tuple parameters;  // names
    nb::list captured;     // (dict, name) or (cell, None) of the last build
    std::string name;
    kernel::Options options;
    std::vector<std::unique_ptr<Variant>> variants;  // the most recently used last

    /// A kernel whose captured values change at every launch keeps this many programs.
    static constexpr std::size_t most_variants = 32;

    Variant& current() {
        if (!variants.empty() && variants.back()->fits()) return *variants.back();
        for (std::size_t k = 0; k + 1 < variants.size(); ++k) {
            if (!variants[k]->fits()) continue;
            std::swap(variants[k], variants.back());
            return *variants.back();
        }
        return built();
    }

    Variant& built() {
        const nb::object program = build();
        auto variant = std::make_unique<Variant>(
            Variant{{}, kernel::Dispatcher(nb::cast<PythonProgram&>(program).program, options)});
        for (const nb::handle place : captured) {
            const nb::tuple pair = nb::cast<nb::tuple>(place);
            Captured c{pair[0], pair[1], {}};
            c.value = nb::borrow(c.current());
            variant->captured.push_back(std::move(c));
        }
        if (variants.size() >= most_variants && variants.front()->users == 0)
            variants.erase(variants.begin());
        variants.push_back(std::move(variant));
        return *variants.back();
    }
};

struct KernelObject {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject* dict;
    PyObject* weakrefs;
    State* state;
};

State& state_of(PyObject* self) { return *reinterpret_cast<KernelObject*>(self)->state; }

[[noreturn]] void fail_call(const State& s, const std::string& message) {
    throw Error(ErrorKind::type, s.name + "() " + message);
}

/// Arguments in the parameters' order, where some were given by name.
std::vector<PyObject*> ordered(const State& s, PyObject* const* args, std::size_t positional,
                               PyObject* names) {
    const auto count = static_cast<std::size_t>(PyTuple_GET_SIZE(s.parameters.ptr()));
    if (positional > count)
        fail_call(s, "takes " + std::to_string(count) + " positional arguments but " +
                         std::to_string(positional) + " were given");
    std::vector<PyObject*> out(count, nullptr);
    std::copy(args, args + positional, out.begin());
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(names); ++k) {
        PyObject* name = PyTuple_GET_ITEM(names, k);
        const Py_ssize_t at = PySequence_Index(s.parameters.ptr(), name);
        const std::string text = nb::cast<std::string>(nb::handle(name));
        if (at < 0) {
            PyErr_Clear();
            fail_call(s, "got an unexpected keyword argument '" + text + "'");
        }
        PyObject*& slot = out[static_cast<std::size_t>(at)];
        if (slot) fail_call(s, "got multiple values for argument '" + text + "'");
        slot = args[positional + static_cast<std::size_t>(k)];
    }
    for (std::size_t k = 0; k < count; ++k)
        if (!out[k])
            fail_call(s, "missing a required argument: '" +
                             nb::cast<std::string>(nb::object(s.parameters[k])) + "'");
    return out;
}

void require_count(const State& s, std::size_t given) {
    const auto count = static_cast<std::size_t>(PyTuple_GET_SIZE(s.parameters.ptr()));
    if (given == count) return;
    fail_call(s, "takes " + std::to_string(count) + (count == 1 ? " argument" : " arguments") +
                     " but " + std::to_string(given) + (given == 1 ? " was given" : " were given"));
}

PyObject* call(PyObject* self, PyObject* const* args, std::size_t flags, PyObject* names) {
    return guarded<PyObject*>(nullptr, [&] {
        State& s = state_of(self);
        std::size_t count = static_cast<std::size_t>(PyVectorcall_NARGS(flags));
        std::vector<PyObject*> in_order;
        if (names && PyTuple_GET_SIZE(names)) {
            in_order = ordered(s, args, count, names);
            args = in_order.data();
            count = in_order.size();
        }
        require_count(s, count);
        const Arguments arguments(s.name.c_str(), s.parameters.ptr(), args, count);
        const InUse used(s.current());
        used.variant.dispatcher.launch(arguments.span(), true);
        return Py_NewRef(Py_None);
    });
}

kernel::Inspect inspect_mode(PyObject* mode) {
    const char* text = mode && PyUnicode_Check(mode) ? PyUnicode_AsUTF8(mode) : nullptr;
    const std::string_view name = text ? text : "";
    if (name == "ir") return kernel::Inspect::ir;
    if (name == "source") return kernel::Inspect::source;
    if (name == "assembly") return kernel::Inspect::assembly;
    throw Error(ErrorKind::value, "inspect: mode is " +
                                      nb::cast<std::string>(nb::repr(nb::handle(mode))) +
                                      "; it takes \"ir\", \"source\" or \"assembly\"");
}

PyObject* inspect(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
    return guarded<PyObject*>(nullptr, [&] {
        State& s = state_of(self);
        kernel::Inspect mode = kernel::Inspect::ir;
        for (Py_ssize_t k = 0; names && k < PyTuple_GET_SIZE(names); ++k) {
            if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, k), "mode") != 0)
                throw Error(ErrorKind::type,
                            "inspect: pass the kernel's arguments by position, and mode= by name");
            mode = inspect_mode(args[nargs + k]);
        }
        const auto count = static_cast<std::size_t>(nargs);
        if (mode != kernel::Inspect::ir || count) require_count(s, count);
        const Arguments arguments(s.name.c_str(), s.parameters.ptr(), args, count);
        const InUse used(s.current());
        const std::string text = used.variant.dispatcher.inspect(arguments.span(), mode);
        return nb::cast(text).release().ptr();
    });
}

PyObject* create(PyTypeObject* type, PyObject* args, PyObject*) {
    PyObject *build, *parameters, *function, *captured;
    int fast_math;
    int check_bounds;
    if (!PyArg_ParseTuple(args, "OO!ppOO!", &build, &PyTuple_Type, &parameters, &fast_math,
                          &check_bounds, &function, &PyList_Type, &captured))
        return nullptr;
    return guarded<PyObject*>(nullptr, [&] {
        auto state = std::make_unique<State>();
        state->build = nb::borrow(build);
        state->parameters = nb::borrow<nb::tuple>(parameters);
        state->captured = nb::borrow<nb::list>(captured);
        state->name = nb::cast<std::string>(nb::handle(function).attr("__name__"));
        state->options = {fast_math != 0, check_bounds != 0};
        nb::dict dict;
        for (const char* name : {"__module__", "__name__", "__qualname__", "__doc__"})
            dict[name] = nb::handle(function).attr(name);
        dict["__wrapped__"] = nb::handle(function);
        auto* self = reinterpret_cast<KernelObject*>(type->tp_alloc(type, 0));
        if (!self) throw nb::python_error();
        self->vectorcall = call;
        self->dict = dict.release().ptr();
        self->state = state.release();
        return reinterpret_cast<PyObject*>(self);
    });
}

int traverse(PyObject* self, visitproc visit, void* arg) {
    auto* k = reinterpret_cast<KernelObject*>(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(k->dict);
    if (!k->state) return 0;
    Py_VISIT(k->state->build.ptr());
    Py_VISIT(k->state->captured.ptr());
    for (const auto& variant : k->state->variants) {
        for (const Captured& c : variant->captured) {
            Py_VISIT(c.container.ptr());
            Py_VISIT(c.value.ptr());
        }
    }
    return 0;
}

int clear(PyObject* self) {
    auto* k = reinterpret_cast<KernelObject*>(self);
    Py_CLEAR(k->dict);
    if (k->state) {
        nb::object build = std::move(k->state->build);
        nb::list captured = std::move(k->state->captured);
        const auto variants = std::move(k->state->variants);
    }
    return 0;
}

void destroy(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (reinterpret_cast<KernelObject*>(self)->weakrefs) PyObject_ClearWeakRefs(self);
    clear(self);
    delete reinterpret_cast<KernelObject*>(self)->state;
    type->tp_free(self);
    Py_DECREF(type);
}

PyObject* repr(PyObject* self) {
    return PyUnicode_FromFormat("<tack.kernel %s>", state_of(self).name.c_str());
}

PyMethodDef methods[] = {
    {"inspect", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(inspect)),
     METH_FASTCALL | METH_KEYWORDS,
     "inspect($self, /, *args, mode='ir')\n--\n\n"
     "What a launch with these arguments would use, as text.\n\n"
     "mode: \"ir\", the program (which needs no arguments), \"source\", the generated source, or\n"
     "\"assembly\", its machine code."},
    {},
};

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(KernelObject, vectorcall), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(KernelObject, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(KernelObject, weakrefs), READONLY, nullptr},
    {},
};

PyGetSetDef properties[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {},
};

template <class F>
void* slot(F* function) {
    return reinterpret_cast<void*>(function);
}

PyType_Slot slots[] = {
    {Py_tp_new, slot(create)},
    {Py_tp_dealloc, slot(destroy)},
    {Py_tp_traverse, slot(traverse)},
    {Py_tp_clear, slot(clear)},
    {Py_tp_repr, slot(repr)},
    {Py_tp_call, slot(PyVectorcall_Call)},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_getset, properties},
    {Py_tp_doc, const_cast<char*>("A kernel: call it to launch it. Made by tack.kernel.")},
    {0, nullptr},
};

PyType_Spec spec = {"tack.Kernel", sizeof(KernelObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};

}  // namespace
}  // namespace tack::python

void bind_kernel(nanobind::module_& m) {
    using namespace tack::python;
    PyObject* type = PyType_FromSpec(&spec);
    if (!type) throw nb::python_error();
    m.attr("Kernel") = nb::steal(type);
    tack::kernel::set_gil_hooks(
        {[]() -> void* { return PyEval_SaveThread(); },
         [](void* token) {
             try {
                 PyEval_RestoreThread(static_cast<PyThreadState*>(token));
             } catch (abi::__forced_unwind&) {
                 stop_thread();
             }
         },
         [] { return Py_IsInitialized() && may_take_gil() && holds_gil(); }});
}
