// Figures of the C++ library. Prints lines "figure NAME SECONDS", each the best of many batches.
#include <chrono>
#include <cstdio>
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
    std::vector<float> values = std::vector<float>(16);
    std::int64_t shape[1] = {16};
    tack::dlpack::ManagedTensor tensor{{values.data(),
                                        {tack::dlpack::cpu, 0},
                                        1,
                                        {tack::dlpack::code_float, 32, 1},
                                        shape,
                                        nullptr,
                                        0},
                                       nullptr,
                                       [](tack::dlpack::ManagedTensor*) {}};
};

}  // namespace

int main() {
    const tack::Array x = tack::full({16}, 1.0);
    const tack::Array y = tack::full({16}, 2.0);
    const tack::Array z = tack::zeros({16});
    saxpy(2.0f, x, y, z);
    figure("launch", [&] { saxpy(2.0f, x, y, z); });
    Producer producer;
    figure("import", [&] { tack::from_dlpack(&producer.tensor); });
    figure("export", [&] {
        tack::dlpack::ManagedTensorVersioned* tensor = tack::to_dlpack_versioned(x);
        tensor->deleter(tensor);
    });
}
