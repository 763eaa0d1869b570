/// Arrays: C-contiguous elements of one dtype on one device.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "tack/config.hpp"
#include "tack/detail/ref.hpp"
#include "tack/device.hpp"
#include "tack/dtype.hpp"
#include "tack/shape.hpp"

namespace tack {

struct ArrayState;

/// A cheap handle on an array: copying it copies no data, and the memory (or the foreign owner
/// that it was imported from) is let go with the last handle, reshape or export.
/// Handles may be copied and dropped on any thread. A default-constructed handle is empty and
/// may only be assigned to or tested.
class TACK_API Array {
public:
    Array() noexcept;
    explicit Array(detail::Ref<ArrayState> state) noexcept;
    Array(const Array&) noexcept;
    Array(Array&&) noexcept;
    Array& operator=(const Array&) noexcept;
    Array& operator=(Array&&) noexcept;
    ~Array();

    explicit operator bool() const noexcept { return static_cast<bool>(state_); }

    const Shape& shape() const noexcept;
    DType dtype() const noexcept;
    int ndim() const noexcept;
    std::int64_t size() const noexcept;    // elements
    std::int64_t nbytes() const noexcept;  // bytes
    bool writable() const noexcept;
    Device device() const;
    /// The address on device(); null where size() is 0 and nothing was allocated.
    void* ptr() const noexcept;

    /// The same memory under another shape; one extent may be -1. Throws value when the sizes
    /// differ.
    Array reshape(const Shape& shape) const;
    /// New memory on the same device, always writable.
    Array copy() const;
    /// This array if it is there already, else a copy on `device`.
    Array to_device(const Device& device) const;
    Array to_device(std::string_view name) const { return to_device(tack::device(name)); }

    /// Copies all bytes to or from host memory, after the queued work that uses the array.
    /// `bytes` must be nbytes(), else value. write() on a read-only array throws runtime.
    void read(void* host, std::int64_t bytes) const;
    void write(const void* host, std::int64_t bytes);
    /// All elements, in C order. T must be the array's dtype, else type.
    template <class T>
    std::vector<T> to_vector() const {
        require_dtype(dtype_of<T>, "to_vector");
        std::vector<T> values(static_cast<std::size_t>(size()));
        read(values.data(), nbytes());
        return values;
    }
    /// Host memory's elements in place. Throws type for another dtype, runtime for device memory
    /// or, with a non-const T, for a read-only array.
    template <class T>
    T* data() const {
        require_dtype(dtype_of<T>, "data");
        return static_cast<T*>(host_data(!std::is_const_v<T>));
    }

    /// The shared state; for the library's own sources, which see its definition.
    ArrayState* state() const noexcept { return state_.get(); }

private:
    void require_dtype(DType wanted, const char* operation) const;
    void* host_data(bool for_writing) const;

    detail::Ref<ArrayState> state_;
};

/// New arrays. Host memory is 64-byte aligned. `exportable` asks for memory that export_memory()
/// can hand out without a copy; throws runtime on a backend that cannot.
/// Throws value for a shape that is negative or beyond int64 bytes, memory when there is too
/// little.
TACK_API Array empty(const Shape& shape, DType dtype = DType::float32, const Device& device = {},
                     bool exportable = false);
TACK_API Array zeros(const Shape& shape, DType dtype = DType::float32, const Device& device = {});
/// Every element `value`, converted as a kernel's cast would: saturating, NaN to 0.
TACK_API Array full(const Shape& shape, double value, DType dtype = DType::float32,
                    const Device& device = {});
/// Sets every element; the value is converted as in full(). A read-only array throws runtime.
TACK_API void fill(Array& array, double value);
/// Exact for 64-bit integers, which a double cannot carry.
TACK_API void fill(Array& array, std::int64_t value);
TACK_API void fill(Array& array, std::uint64_t value);

/// A one-dimensional copy of `values`, or one of `shape` where given (sizes must agree, else
/// value).
template <class T>
Array from_vector(const std::vector<T>& values, const Shape& shape, const Device& device = {}) {
    static_assert(!std::is_same_v<T, bool>, "std::vector<bool> has no contiguous elements");
    Array array = empty({static_cast<std::int64_t>(values.size())}, dtype_of<T>, device);
    array.write(values.data(), array.nbytes());
    return array.reshape(shape);
}
template <class T>
Array from_vector(const std::vector<T>& values, const Device& device = {}) {
    return from_vector(values, {static_cast<std::int64_t>(values.size())}, device);
}

/// Wraps memory that the caller keeps alive until the last array over it is gone.
/// ptr: address on `device` (the default device where none is given), aligned for `dtype`.
/// shape: extents in elements. The array is C-contiguous and shared: a launch using it has run
/// when it returns. On the CPU the range's first and last page must be mapped (and writable, if
/// `writable`). Null is legal where the size is 0, and only there.
/// Throws value: null, misaligned, unmapped or of another memory space; bytes beyond int64.
/// Source: specification, "Raw pointers".
TACK_API Array array_from_ptr(void* ptr, DType dtype, const Shape& shape, const Device& device = {},
                              bool writable = false);
/// The same over memory that must not change: always read-only.
TACK_API Array array_from_ptr(const void* ptr, DType dtype, const Shape& shape,
                              const Device& device = {});

/// A device allocation as an operating system's handle, in plain values.
struct ExportedMemory {
    std::string backend;               // "cuda", "metal"
    std::int64_t size = 0;             // bytes of the array
    std::int64_t allocation_size = 0;  // bytes of the allocation, rounded up by the driver
    std::uint64_t handle = 0;
    std::string handle_type;                // "posix_fd", "win32_kmt", "mtl_buffer"
    std::vector<std::uint8_t> device_uuid;  // 16 bytes, or empty where the API has none
};
/// Throws runtime on a backend that cannot: "Backend cpu does not support memory export".
TACK_API ExportedMemory export_memory(const Array& array);
/// An array over an allocation that another process or API exported, mapped here without a copy and
/// shared. memory: what its exporter gave; its `handle` is one of this process, which stays the
/// caller's: it is never closed. device: where to map it, by default the one that has the record's
/// UUID; where the record has none, the default device if that is of the record's backend, else the
/// first of that backend.
/// Throws value: a shape of more bytes than the allocation; a device whose UUID is another.
/// runtime: a backend that imports no memory, a handle that the driver refuses.
TACK_API Array import_memory(const ExportedMemory& memory, DType dtype, const Shape& shape,
                             const Device& device = {}, bool writable = true);

}  // namespace tack
