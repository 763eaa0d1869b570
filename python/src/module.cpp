#include <cstdlib>

#include "bindings.hpp"

void bind_ir(nanobind::module_& m);
void bind_kernel(nanobind::module_& m);

NB_MODULE(core, m) {
    using namespace tack::python;

    // A program that ends with arrays alive has done nothing wrong, and the library never prints.
    const char* wanted = std::getenv("TACK_LEAK_WARNINGS");
    nb::set_leak_warnings(wanted && *wanted);
    m.doc() = "The compiled part of Tack; use the names that the tack package has.";
    m.attr("__version__") = TACK_VERSION;
    bind_errors(m);
    bind_dtype(m);
    bind_device(m);
    bind_array(m);
    bind_memory(m);
    bind_create(m);
    bind_dlpack(m);
    bind_exchange_api(m);
    bind_asarray(m);
    bind_explain(m);
    bind_cache(m);
    bind_buffer_capsule(m);
    bind_ir(m);
    bind_kernel(m);
}

// Types and dtypes are the process's: a second interpreter, or a second import, would put its own
// in their place. nanobind has begun with that before the module's body runs, so it is refused
// here.
extern "C" NB_EXPORT PyObject* PyInit__core(void) {
    static bool loaded = false;
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError,
                        "tack: subinterpreters are not supported. Import tack in the main "
                        "interpreter");
        return nullptr;
    }
    if (loaded) {
        PyErr_SetString(PyExc_ImportError,
                        "tack: the module is loaded once in a process. Keep the first one in "
                        "sys.modules");
        return nullptr;
    }
    PyObject* module = PyInit_core();
    loaded = module != nullptr;
    return module;
}
