// libtack and libtorch's DLPack functions, without Python between them. Exits with the failed line.
#include <ATen/ATen.h>
#include <ATen/DLConvertor.h>

#include <tack/tack.hpp>

#define REQUIRE(condition) \
    if (!(condition)) return __LINE__ % 256

int main() {
    {
        tack::Array array = tack::from_vector<float>({1, 2, 3, 4, 5, 6}, {2, 3});
        at::Tensor tensor = at::fromDLPack(reinterpret_cast<DLManagedTensor*>(to_dlpack(array)));
        REQUIRE(tensor.data_ptr() == array.ptr());
        REQUIRE(tensor.sizes() == (at::IntArrayRef{2, 3}));
        tensor.mul_(2);
        REQUIRE(array.to_vector<float>().back() == 12);

        at::Tensor versioned = at::fromDLPackVersioned(
            reinterpret_cast<DLManagedTensorVersioned*>(to_dlpack_versioned(array)));
        REQUIRE(versioned.data_ptr() == array.ptr());
        REQUIRE(tack::live_exports() == 2);
    }
    REQUIRE(tack::live_exports() == 0);

    at::Tensor source = at::arange(4, at::kDouble);
    tack::Array array = tack::from_dlpack(
        reinterpret_cast<tack::dlpack::ManagedTensorVersioned*>(at::toDLPackVersioned(source)));
    REQUIRE(array.ptr() == source.data_ptr());
    tack::Array legacy =
        tack::from_dlpack(reinterpret_cast<tack::dlpack::ManagedTensor*>(at::toDLPack(source)));
    REQUIRE(legacy.ptr() == source.data_ptr());

    // libtorch has no read-only tensors.
    const tack::Array read_only = tack::from_dlpack(
        reinterpret_cast<tack::dlpack::ManagedTensor*>(at::toDLPack(source)), {}, false);
    at::Tensor written = at::fromDLPackVersioned(
        reinterpret_cast<DLManagedTensorVersioned*>(to_dlpack_versioned(read_only)));
    written.fill_(9);
    REQUIRE(read_only.to_vector<double>().front() == 9);
    return 0;
}
