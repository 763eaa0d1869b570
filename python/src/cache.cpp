#include "tack/cache.hpp"

#include "bindings.hpp"

namespace tack::python {

void bind_cache(nb::module_& m) {
    m.def("cache_directory", &cache_directory,
          "Where compiled kernels are kept; empty where there is no disk cache.");
    m.def(
        "cache_usage",
        [] {
            const CacheUsage usage = cache_usage();
            return nb::make_tuple(usage.bytes, usage.limit, usage.entries);
        },
        "(bytes, limit in bytes, entries) of the disk cache.");
    m.def("clear_cache", &clear_cache, nb::call_guard<nb::gil_scoped_release>(),
          "Removes every entry of the disk cache and returns how many there were.");
    m.def("compiler_description", &compiler_description,
          "The compiler that kernels for the CPU go through, or why there is none.");
}

}  // namespace tack::python
