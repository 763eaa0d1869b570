#include "tack/array.hpp"

#include <algorithm>
#include <utility>

#include "array/array_state.hpp"
#include "array/element.hpp"
#include "backend/backend.hpp"
#include "device/registry.hpp"

namespace tack {
namespace {

Array allocate(const Shape& shape, DType dtype, Device device, bool exportable,
               const char* operation) {
    device = device_or_default(device);
    const std::int64_t bytes_each = itemsize(dtype);
    const std::int64_t size = shape.checked_size(bytes_each, operation);
    BufferRef buffer = device.backend().allocate(size * bytes_each, exportable);
    return make_array(std::move(buffer), shape, dtype, size, true);
}

BufferRef host_memory(std::int64_t nbytes) {
    return plain_device("cpu", 0).backend().allocate(nbytes, false);
}

/// A writable copy of `from` on `device`, through the host where the two are devices' that do not
/// copy from each other.
Array copy_on(const ArrayState& from, const Device& device) {
    BufferRef to = device.backend().allocate(from.nbytes, false);
    const Backend& source_backend = *from.buffer->backend;
    // Devices compare without the texts that their domains are told apart by.
    const bool same_domain = &device.backend() == &source_backend ||
                             device.memory_domain() == source_backend.memory_domain();
    if (from.nbytes > 0 && !(same_domain && device.backend().copy(*to, *from.buffer))) {
        if (void* host = to->host_address()) {
            from.buffer->read(host, from.nbytes);
        } else if (const void* source = from.buffer->host_address()) {
            from.buffer->backend->synchronize();
            to->write(source, from.nbytes);
        } else {
            const BufferRef staging = host_memory(from.nbytes);
            from.buffer->read(staging->address, from.nbytes);
            to->write(staging->address, from.nbytes);
        }
    }
    return make_array(std::move(to), from.shape, from.dtype, from.size, true);
}

void require_writable(const ArrayState& state, const char* operation) {
    if (state.writable) return;
    throw Error(ErrorKind::runtime,
                std::string(operation) + ": the " + std::string(name(state.dtype)) +
                    " array of shape " + state.shape.to_string() +
                    " is read-only, as its owner asked; write to a copy() of it");
}

void require_bytes(const ArrayState& state, const void* host, std::int64_t bytes,
                   const char* operation) {
    if (bytes != state.nbytes) {
        throw Error(ErrorKind::value, std::string(operation) + ": " + std::to_string(bytes) +
                                          " bytes of host memory for an array of " +
                                          std::to_string(state.nbytes) +
                                          " bytes; pass all of the array's bytes");
    }
    if (!host && bytes != 0) {
        throw Error(ErrorKind::value, std::string(operation) +
                                          ": the host address is null, for an array of " +
                                          std::to_string(bytes) + " bytes");
    }
}

template <std::size_t width>
void fill_bytes(void* memory, std::int64_t size, std::uint64_t element) {
    auto* bytes = static_cast<unsigned char*>(memory);
    for (std::int64_t k = 0; k < size; ++k) std::memcpy(bytes + k * width, &element, width);
}

void fill_elements(void* memory, std::int64_t size, std::int64_t width, std::uint64_t element) {
    switch (width) {
        case 1:
            return fill_bytes<1>(memory, size, element);
        case 2:
            return fill_bytes<2>(memory, size, element);
        case 4:
            return fill_bytes<4>(memory, size, element);
        default:
            return fill_bytes<8>(memory, size, element);
    }
}

template <class V>
void fill_with(const ArrayState& state, V value) {
    require_writable(state, "fill");
    if (state.size == 0) return;
    const std::uint64_t element = encode_element(state.dtype, value);
    const std::int64_t width = itemsize(state.dtype);
    if (void* host = state.buffer->host_address()) {
        state.buffer->backend->synchronize();
        fill_elements(host, state.size, width, element);
    } else if (!state.buffer->backend->fill(*state.buffer, state.size, width, element)) {
        const BufferRef staging = host_memory(state.nbytes);
        fill_elements(staging->address, state.size, width, element);
        state.buffer->write(staging->address, state.nbytes);
    }
}

/// `shape` with its one extent of -1, if any, replaced by what makes the sizes agree.
Shape resolve_reshape(const ArrayState& state, const Shape& shape) {
    const auto refuse = [&](const std::string& why) {
        throw Error(ErrorKind::value, "reshape: " + std::to_string(state.size) +
                                          " elements of shape " + state.shape.to_string() +
                                          " cannot take shape " + shape.to_string() + why);
    };
    int unknown = -1;
    bool overflow = false;
    bool empty = false;
    std::int64_t known = 1;
    for (int axis = 0; axis < shape.ndim(); ++axis) {
        const std::int64_t extent = shape[axis];
        if (extent < -1) refuse(": an extent is negative");
        if (extent == -1) {
            if (unknown >= 0) refuse(": only one extent may be -1");
            unknown = axis;
        } else if (extent == 0) {
            empty = true;
        } else if (!overflow) {
            overflow = __builtin_mul_overflow(known, extent, &known);
        }
    }
    if (empty) known = 0;
    if (unknown < 0) {
        if ((overflow && !empty) || known != state.size) refuse(": the sizes differ");
        return shape;
    }
    if (empty) refuse(": beside an extent of 0 the one of -1 could be anything");
    if ((overflow && state.size != 0) || (!overflow && state.size % known != 0)) {
        refuse(": the known extents do not divide the size");
    }
    std::int64_t extents[Shape::max_ndim];
    std::copy(shape.begin(), shape.end(), extents);
    extents[unknown] = overflow ? 0 : state.size / known;
    return Shape(std::span<const std::int64_t>(extents, static_cast<std::size_t>(shape.ndim())));
}

}  // namespace

Array::Array() noexcept = default;
Array::Array(detail::Ref<ArrayState> state) noexcept : state_(std::move(state)) {}
Array::Array(const Array&) noexcept = default;
Array::Array(Array&&) noexcept = default;
Array& Array::operator=(const Array&) noexcept = default;
Array& Array::operator=(Array&&) noexcept = default;
Array::~Array() = default;

const Shape& Array::shape() const noexcept { return state_->shape; }
DType Array::dtype() const noexcept { return state_->dtype; }
int Array::ndim() const noexcept { return state_->shape.ndim(); }
std::int64_t Array::size() const noexcept { return state_->size; }
std::int64_t Array::nbytes() const noexcept { return state_->nbytes; }
bool Array::writable() const noexcept { return state_->writable; }
Device Array::device() const { return Device(state_->buffer->backend); }
void* Array::ptr() const noexcept { return state_->address(); }

Array Array::reshape(const Shape& shape) const {
    return make_array(state_->buffer, resolve_reshape(*state_, shape), state_->dtype, state_->size,
                      state_->writable);
}

Array Array::copy() const { return copy_on(*state_, device()); }

Array Array::to_device(const Device& device) const {
    const Device target = device_or_default(device);
    return target == this->device() ? *this : copy_on(*state_, target);
}

void Array::read(void* host, std::int64_t bytes) const {
    require_bytes(*state_, host, bytes, "read");
    if (bytes > 0) state_->buffer->read(host, bytes);
}

void Array::write(const void* host, std::int64_t bytes) {
    require_writable(*state_, "write");
    require_bytes(*state_, host, bytes, "write");
    if (bytes > 0) state_->buffer->write(host, bytes);
}

void Array::require_dtype(DType wanted, const char* operation) const {
    if (wanted == state_->dtype) return;
    throw Error(ErrorKind::type, std::string(operation) + ": the array's elements are " +
                                     std::string(name(state_->dtype)) + ", not " +
                                     std::string(name(wanted)));
}

void* Array::host_data(bool for_writing) const {
    if (for_writing) require_writable(*state_, "data");
    void* host = state_->buffer->host_address();
    if (!host && state_->nbytes > 0) {
        throw Error(ErrorKind::runtime, "data: the array is memory of " + device().to_string() +
                                            ", which the host cannot reach; use to_vector(), "
                                            "read() or to_device(\"cpu\")");
    }
    state_->buffer->share();
    return host;
}

Array empty(const Shape& shape, DType dtype, const Device& device, bool exportable) {
    return allocate(shape, dtype, device, exportable, "empty");
}

Array zeros(const Shape& shape, DType dtype, const Device& device) {
    Array array = allocate(shape, dtype, device, false, "zeros");
    fill(array, 0.0);
    return array;
}

Array full(const Shape& shape, double value, DType dtype, const Device& device) {
    Array array = allocate(shape, dtype, device, false, "full");
    fill(array, value);
    return array;
}

void fill(Array& array, double value) { fill_with(*array.state(), value); }
void fill(Array& array, std::int64_t value) { fill_with(*array.state(), value); }
void fill(Array& array, std::uint64_t value) { fill_with(*array.state(), value); }

Array import_memory(const ExportedMemory& memory, DType dtype, const Shape& shape,
                    const Device& device, bool writable) {
    constexpr const char* operation = "import_memory";
    const std::int64_t size = shape.checked_size(itemsize(dtype), operation);
    const std::int64_t nbytes = size * itemsize(dtype);
    if (nbytes > memory.allocation_size) {
        throw Error(ErrorKind::value, std::string(operation) + ": shape " + shape.to_string() +
                                          " of " + std::string(name(dtype)) + " takes " +
                                          std::to_string(nbytes) + " bytes, the allocation has " +
                                          std::to_string(memory.allocation_size) +
                                          "; pass a shape that fits, or the allocation_size that "
                                          "its exporter gave");
    }
    Device target = device_or_default(device);
    if (!device) {
        const std::string name(memory.backend.empty() ? target.name() : memory.backend);
        const int found = memory.device_uuid.empty() ? -1 : find_device(name, memory.device_uuid);
        if (target.name() != name || (found >= 0 && found != target.index()))
            target = plain_device(name, std::max(found, 0));
    }
    return make_array(target.backend().import_memory(memory, nbytes), shape, dtype, size, writable);
}

ExportedMemory export_memory(const Array& array) { return array.state()->buffer->export_memory(); }

}  // namespace tack
