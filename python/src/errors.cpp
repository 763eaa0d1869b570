#include <new>

#include "bindings.hpp"

namespace tack::python {
namespace {

// Kept until the process ends: an error may be raised while modules are being torn down.
PyObject* non_contiguous_error;
PyObject* compile_error;

PyObject* exception_class(ErrorKind kind) {
    switch (kind) {
        case ErrorKind::value:
            return PyExc_ValueError;
        case ErrorKind::type:
            return PyExc_TypeError;
        case ErrorKind::buffer:
            return PyExc_BufferError;
        case ErrorKind::index:
            return PyExc_IndexError;
        case ErrorKind::memory:
            return PyExc_MemoryError;
        case ErrorKind::non_contiguous:
            return non_contiguous_error;
        case ErrorKind::compile:
            return compile_error;
        case ErrorKind::runtime:
            break;
    }
    return PyExc_RuntimeError;
}

PyObject* add_exception(nb::module_& m, const char* name, const char* doc, nb::tuple bases) {
    const std::string full_name = std::string("tack.") + name;
    PyObject* type = PyErr_NewExceptionWithDoc(full_name.c_str(), doc, bases.ptr(), nullptr);
    if (!type) throw nb::python_error();
    m.attr(name) = nb::handle(type);
    return type;
}

}  // namespace

void set_python_error() noexcept {
    try {
        throw;
    } catch (nb::python_error& error) {
        error.restore();
    } catch (const Error& error) {
        PyErr_SetString(exception_class(error.kind()), error.what());
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
    }
}

void bind_errors(nb::module_& m) {
    non_contiguous_error =
        add_exception(m, "NonContiguousError",
                      "Memory that is not laid out in C order, where a view was asked for.",
                      nb::make_tuple(nb::handle(PyExc_ValueError), nb::handle(PyExc_BufferError)));
    compile_error = add_exception(m, "CompileError",
                                  "A kernel that cannot be compiled; the text points at its line.",
                                  nb::make_tuple(nb::handle(PyExc_TypeError)));
    nb::register_exception_translator([](const std::exception_ptr& exception, void*) {
        try {
            std::rethrow_exception(exception);
        } catch (const Error& error) {
            PyErr_SetString(exception_class(error.kind()), error.what());
        }
    });
}

}  // namespace tack::python
