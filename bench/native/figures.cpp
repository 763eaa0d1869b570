// Figures of the C++ library. Prints lines "figure NAME SECONDS", each the best of many batches.
#include <sys/mman.h>

#include <chrono>
#include <cstdio>
#include <utility>
#include <vector>

#include <tack/tack.hpp>

namespace {

const tack::Kernel saxpy("saxpy", [](tack::Scalar<float> a, tack::In<float> x, tack::In<float> y,
                                     tack::Out<float> z) {
    tack::parallel(z.size(), [&](tack::Index i) { z[i] = a * x[i] + y[i]; });
});

template <class Body>
void figure(const char* name, Body&& body) {
    using Clock = std::chrono::steady_clock;
    constexpr int calls = 20'000;
    double best = 1;
    for (int batch = 0; batch < 100; ++batch) {
        const auto start = Clock::now();
        for (int k = 0; k < calls; ++k) body();
        const std::chrono::duration<double> taken = Clock::now() - start;
        best = std::min(best, taken.count() / calls);
    }
    std::printf("figure %s %.12g\n", name, best);
}

/// A producer's tensor that is never freed: the deleter does nothing, so that only Tack's own work
/// is measured.
struct Producer {
    Producer(void* memory, std::vector<std::int64_t> extents) : shape(std::move(extents)) {
        tensor.dl_tensor = {memory,
                            {tack::dlpack::cpu, 0},
                            static_cast<std::int32_t>(shape.size()),
                            {tack::dlpack::code_float, 32, 1},
                            shape.data(),
                            nullptr,
                            0};
        tensor.deleter = [](tack::dlpack::ManagedTensor*) {};
    }
    std::vector<std::int64_t> shape;
    tack::dlpack::ManagedTensor tensor{};
};

void export_figure(const char* name, const tack::Array& array) {
    figure(name, [&] {
        tack::dlpack::ManagedTensorVersioned* tensor = tack::to_dlpack_versioned(array);
        tensor->deleter(tensor);
    });
}

}  // namespace

int main() {
    const tack::Array x = tack::full({16}, 1.0);
    const tack::Array y = tack::full({16}, 2.0);
    const tack::Array z = tack::zeros({16});
    saxpy(2.0f, x, y, z);
    figure("launch", [&] { saxpy(2.0f, x, y, z); });
    std::vector<float> values(16);
    Producer small(values.data(), {16});
    figure("import", [&] { tack::from_dlpack(&small.tensor); });
    export_figure("export", x);

    const std::vector<std::int64_t> extents{10, 10, 10, 10, 10, 10, 50, 50};  // 10 GB of float32
    void* memory = mmap(nullptr, 10'000'000'000, PROT_READ,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return 1;
    Producer large(memory, extents);
    figure("import_large", [&] { tack::from_dlpack(&large.tensor); });
    export_figure("export_large", tack::from_dlpack(&large.tensor));
}
