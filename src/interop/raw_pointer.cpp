#include <cstdint>
#include <string>

#include "array/array_state.hpp"
#include "backend/backend.hpp"
#include "device/registry.hpp"

namespace tack {

Array array_from_ptr(void* ptr, DType dtype, const Shape& shape, const Device& device,
                     bool writable) {
    constexpr const char* operation = "array_from_ptr";
    const std::int64_t bytes_each = itemsize(dtype);
    const std::int64_t size = shape.checked_size(bytes_each, operation);
    const std::int64_t nbytes = size * bytes_each;
    const auto refuse = [&](const std::string& why) {
        throw Error(ErrorKind::value, std::string(operation) + ": " + why);
    };
    const Device target = device_or_default(device);
    if (size > 0) {
        const auto address = reinterpret_cast<std::uintptr_t>(ptr);
        if (address == 0) {
            refuse("the address is null, for shape " + shape.to_string() +
                   "; null is legal for an array of no elements only");
        }
        if (const std::uintptr_t off = address % static_cast<std::uintptr_t>(bytes_each)) {
            refuse("address " + std::to_string(address) + " is " + std::to_string(off) +
                   " bytes past a multiple of " + std::to_string(bytes_each) + ", the size of a " +
                   std::string(name(dtype)) + "; pass an aligned address or copy the data");
        }
        if (static_cast<std::uintptr_t>(nbytes) - 1 > UINTPTR_MAX - address) {
            refuse(std::to_string(nbytes) + " bytes from address " + std::to_string(address) +
                   " go beyond the end of memory; check the address and the shape");
        }
        target.backend().check_wrappable(ptr, nbytes, writable, operation);
    }
    return make_array(target.backend().wrap(ptr, nbytes, {}), shape, dtype, size, writable);
}

Array array_from_ptr(const void* ptr, DType dtype, const Shape& shape, const Device& device) {
    return array_from_ptr(const_cast<void*>(ptr), dtype, shape, device, false);
}

}  // namespace tack
