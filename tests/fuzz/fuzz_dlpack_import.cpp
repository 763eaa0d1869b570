// libFuzzer: import of arbitrary managed tensors. Fields are arbitrary; memory that they promise
// is there, so that a read or write beyond it is a fault that AddressSanitizer sees.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tack/dlpack.hpp"
#include "tack/error.hpp"

namespace {

using tack::dlpack::ManagedTensor;
using tack::dlpack::ManagedTensorVersioned;

/// Takes values off the front of the input; zeros once it is used up.
struct Input {
    const std::uint8_t* data;
    std::size_t left;

    template <class T>
    T take() {
        T value{};
        const std::size_t count = left < sizeof value ? left : sizeof value;
        std::memcpy(&value, data, count);
        data += count;
        left -= count;
        return value;
    }
    /// Mostly one of the small values that get far, now and then anything.
    std::int64_t extent() {
        const auto kind = take<std::uint8_t>();
        return kind < 240 ? kind % 8 : take<std::int64_t>();
    }
};

void require(bool condition) {
    if (!condition) std::abort();
}

template <class Managed>
struct Producer {
    static constexpr bool versioned = sizeof(Managed) == sizeof(ManagedTensorVersioned);
    Managed managed{};
    std::vector<std::int64_t> shape;
    std::vector<std::int64_t> strides;
    std::vector<std::uint8_t> memory;
    int deleted = 0;

    explicit Producer(Input& input) {
        tack::dlpack::Tensor& tensor = managed.dl_tensor;
        const auto switches = input.take<std::uint8_t>();
        tensor.ndim = switches & 1 ? input.take<std::int8_t>() : input.take<std::uint8_t>() % 5;
        // Of a negative number of dimensions nothing is promised.
        for (int k = 0; k < tensor.ndim; ++k) shape.push_back(input.extent());
        tensor.dtype = {static_cast<std::uint8_t>(input.take<std::uint8_t>() % 8),
                        input.take<std::uint8_t>(), 1};
        if (switches & 2) tensor.dtype.bits = 8 << (tensor.dtype.bits % 4);
        if (switches & 4) tensor.dtype.lanes = input.take<std::uint16_t>();
        tensor.device = {switches & 8 ? input.take<std::int32_t>() : 1, input.take<std::int8_t>()};
        tensor.byte_offset = switches & 16 ? input.take<std::uint64_t>() : 0;
        if (switches & 32) {
            for (int k = 0; k < tensor.ndim; ++k) strides.push_back(input.extent());
        } else {
            std::uint64_t stride = 1;
            strides.resize(shape.size());
            for (std::size_t k = shape.size(); k-- > 0;) {
                strides[k] = static_cast<std::int64_t>(stride);
                stride *= static_cast<std::uint64_t>(shape[k]);
            }
        }
        tensor.shape = shape.data();
        tensor.strides = switches & 64 ? nullptr : strides.data();
        provide_memory();
        managed.manager_ctx = this;
        if (!(switches & 128))
            managed.deleter = [](Managed* self) {
                ++static_cast<Producer*>(self->manager_ctx)->deleted;
            };
        if constexpr (versioned) {
            managed.version = {input.take<std::uint8_t>() % 3u, input.take<std::uint32_t>()};
            managed.flags = input.take<std::uint64_t>();
        }
    }
    Producer(const Producer&) = delete;

    /// Exactly what a contiguous tensor of these fields has, where that can be had.
    void provide_memory() {
        tack::dlpack::Tensor& tensor = managed.dl_tensor;
        std::uint64_t bytes = (tensor.dtype.bits + 7u) / 8u;
        for (const std::int64_t extent : shape) {
            if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) return;
        }
        if (tensor.byte_offset > 1 << 12 || bytes > 1 << 16) {
            tensor.data = reinterpret_cast<void*>(std::uintptr_t{4096});  // must not be touched
            return;
        }
        memory.assign(bytes + tensor.byte_offset, 1);
        tensor.data = memory.data();
    }

    bool is_readable() const {
        if constexpr (versioned) return managed.version.major <= 1;
        return true;
    }
    bool says_read_only() const {
        if constexpr (versioned) return managed.flags & tack::dlpack::flag_read_only;
        return false;
    }
};

/// What is accepted is as its producer said, and its elements are all there.
template <class Managed>
void use(Producer<Managed>& producer, tack::Array array) {
    const tack::dlpack::Tensor& tensor = producer.managed.dl_tensor;
    require(array.ndim() == tensor.ndim);
    for (int k = 0; k < array.ndim(); ++k) require(array.shape()[k] == producer.shape[k]);
    require(array.writable() == !producer.says_read_only());
    if (producer.memory.size() < static_cast<std::size_t>(array.nbytes())) return;
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(array.nbytes()));
    array.read(bytes.data(), array.nbytes());
    if (array.writable()) array.write(bytes.data(), array.nbytes());
    auto* exported = tack::to_dlpack_versioned(array);
    const tack::Array again = tack::from_dlpack(exported);
    require(again.shape() == array.shape() && again.dtype() == array.dtype());
    require(again.writable() == array.writable());
}

template <class Managed>
void import(Input& input) {
    Producer<Managed> producer(input);
    bool adopted = true;
    try {
        use(producer, tack::from_dlpack(&producer.managed));
    } catch (const tack::Error& error) {
        require(std::strstr(error.what(), ": ") != nullptr);
        adopted = !producer.is_readable();
    }
    require(producer.deleted == (adopted && producer.managed.deleter ? 1 : 0));
    require(tack::live_exports() == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Input input{data, size};
    if (input.take<std::uint8_t>() & 1)
        import <ManagedTensorVersioned>(input);
    else
        import <ManagedTensor>(input);
    return 0;
}
