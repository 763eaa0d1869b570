// A tensor of another library goes through a kernel and on as a tensor again, without a copy.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "tack/tack.hpp"

namespace {

tack::Kernel saxpy("saxpy", [](tack::Scalar<float> a, tack::In<float> x, tack::InOut<float> y) {
    tack::parallel(x.size(), [&](tack::Index i) { y[i] = a * x[i] + y[i]; });
});

// What a producer keeps alive until the consumer calls the deleter.
struct Field {
    std::vector<float> values;
    std::int64_t shape[1];
    tack::dlpack::ManagedTensorVersioned tensor{};
};

tack::dlpack::ManagedTensorVersioned* make_tensor(std::vector<float> values) {
    auto field = std::make_unique<Field>();
    field->values = std::move(values);
    field->shape[0] = static_cast<std::int64_t>(field->values.size());
    field->tensor.version = {1, 3};
    field->tensor.manager_ctx = field.get();
    field->tensor.deleter = [](tack::dlpack::ManagedTensorVersioned* tensor) {
        delete static_cast<Field*>(tensor->manager_ctx);
    };
    field->tensor.dl_tensor.data = field->values.data();
    field->tensor.dl_tensor.device = {tack::dlpack::cpu, 0};
    field->tensor.dl_tensor.ndim = 1;
    field->tensor.dl_tensor.dtype = {tack::dlpack::code_float, 32, 1};
    field->tensor.dl_tensor.shape = field->shape;
    return &field.release()->tensor;
}

}  // namespace

int main() {
    try {
        tack::dlpack::ManagedTensorVersioned* tensor = make_tensor({0, 1, 2, 3});
        void* const address = tensor->dl_tensor.data;
        tack::Array x = tack::from_dlpack(tensor);  // owns the tensor's deleter now
        tack::Array y = tack::full(x.shape(), 10.0);
        saxpy(2.0f, x, y);

        tack::dlpack::ManagedTensorVersioned* result = tack::to_dlpack_versioned(y);
        const auto* values = static_cast<const float*>(result->dl_tensor.data);
        std::printf("y =");
        for (std::int64_t i = 0; i < result->dl_tensor.shape[0]; ++i)
            std::printf(" %g", static_cast<double>(values[i]));
        std::printf("\nx is %s\n", x.ptr() == address ? "the producer's memory" : "a copy");
        result->deleter(result);
        std::printf("exports alive: %lld\n", static_cast<long long>(tack::live_exports()));
        return 0;
    } catch (const tack::Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
