#include <cstdlib>

#include "bindings.hpp"

void bind_ir(nanobind::module_& m);
void bind_kernel(nanobind::module_& m);

NB_MODULE(_core, m) {
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
    bind_create(m);
    bind_dlpack(m);
    bind_exchange_api(m);
    bind_asarray(m);
    bind_explain(m);
    bind_cache(m);
    bind_ir(m);
    bind_kernel(m);
}
