// Takes and gives arrays as extensions with nanobind do.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <utility>

namespace nb = nanobind;
using Floats = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

NB_MODULE(nanobind_arrays, m) {
    m.def("add_one", [](Floats array) {
        for (size_t k = 0; k < array.size(); ++k) array.data()[k] += 1;
    });
    m.def("total", [](nb::ndarray<const float, nb::device::cpu> array) {
        float sum = 0;
        for (size_t k = 0; k < array.size(); ++k) sum += array.data()[k];
        return sum;
    });
    m.def("address",
          [](nb::ndarray<nb::ro> array) { return reinterpret_cast<uintptr_t>(array.data()); });
    static Floats* kept = nullptr;
    m.def("keep", [](Floats array) { kept = new Floats(array); });
    m.def("kept_total", [] {
        float sum = 0;
        for (size_t k = 0; k < kept->size(); ++k) sum += kept->data()[k];
        return sum;
    });
    m.def("let_go", [] { delete std::exchange(kept, nullptr); });
    m.def("make", [](bool read_only) {
        auto* values = new float[6]{0, 1, 2, 3, 4, 5};
        nb::capsule owner(values, [](void* p) noexcept { delete[] static_cast<float*>(p); });
        if (read_only)
            return nb::cast(nb::ndarray<nb::array_api, const float>(values, {2, 3}, owner));
        return nb::cast(nb::ndarray<nb::array_api, float>(values, {2, 3}, owner));
    });
}
