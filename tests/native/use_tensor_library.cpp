// libtack and a C library of tensors, without Python between them. Exits with the failed line.
#include <tack/tack.hpp>

#include "tensor_library.h"

#define REQUIRE(condition) \
    if (!(condition)) return __LINE__ % 256

int main() {
    using tack::Array;

    // from the library, and back into it
    {
        auto* made = library_make(4);
        Array array = tack::from_dlpack(reinterpret_cast<tack::dlpack::ManagedTensor*>(made));
        REQUIRE(array.ptr() == made->dl_tensor.data);
        REQUIRE(array.to_vector<double>() == (std::vector<double>{0, 1, 2, 3}));
        REQUIRE(library_take(reinterpret_cast<DLManagedTensor*>(tack::to_dlpack(array))) == 0);
        REQUIRE(array.to_vector<double>() == (std::vector<double>{0, 2, 4, 6}));
        REQUIRE(tack::live_exports() == 0);
        REQUIRE(library_alive() == 1);
    }
    REQUIRE(library_alive() == 0);

    // read-only stays so
    for (const int read_only : {0, 1}) {
        Array array = tack::from_dlpack(reinterpret_cast<tack::dlpack::ManagedTensorVersioned*>(
            library_make_versioned(3, read_only)));
        REQUIRE(array.writable() == !read_only);
        auto* out = reinterpret_cast<DLManagedTensorVersioned*>(tack::to_dlpack_versioned(array));
        REQUIRE(library_take_versioned(out) == -read_only);
    }
    REQUIRE(library_alive() == 0);
    REQUIRE(tack::live_exports() == 0);
    return 0;
}
