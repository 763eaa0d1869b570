/// What the C++ tests share.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "array/array_state.hpp"
#include "backend/backend.hpp"
#include "tack/dlpack.hpp"
#include "tack/error.hpp"

namespace tack::test {

/// `action` throws an Error of this kind, and its text holds each of the fragments.
template <class Action>
void expect_error(ErrorKind kind, std::initializer_list<std::string_view> fragments,
                  Action&& action) {
    try {
        action();
    } catch (const Error& error) {
        EXPECT_EQ(static_cast<int>(error.kind()), static_cast<int>(kind)) << error.what();
        for (const std::string_view fragment : fragments) {
            EXPECT_NE(std::string_view(error.what()).find(fragment), std::string_view::npos)
                << "'" << fragment << "' is not in: " << error.what();
        }
        return;
    }
    ADD_FAILURE() << "nothing was thrown";
}

/// A device whose memory the host cannot reach, but through read() and write(). It runs nothing
/// and counts what is asked of it.
struct FarDevice : Backend {
    struct Memory final : Buffer {
        Memory(FarDevice& device, std::int64_t bytes)
            : Memory(device, std::make_unique<char[]>(static_cast<std::size_t>(bytes)), bytes) {}
        Memory(FarDevice& device, void* foreign, std::int64_t bytes, Hold&& hold_)
            : Buffer(device, foreign, bytes), hold(std::move(hold_)) {
            shared_.store(true);
        }
        void read(void* host, std::int64_t bytes) const override {
            std::memcpy(host, address, static_cast<std::size_t>(bytes));
        }
        void write(const void* host, std::int64_t bytes) override {
            std::memcpy(address, host, static_cast<std::size_t>(bytes));
        }
        const std::unique_ptr<char[]> own;
        const Hold hold;

    private:
        Memory(FarDevice& device, std::unique_ptr<char[]> memory, std::int64_t bytes)
            : Buffer(device, memory.get(), bytes), own(std::move(memory)) {}
    };

    explicit FarDevice(std::string name_ = "cuda", int index_ = 0)
        : Backend(std::move(name_), index_) {}

    BufferRef allocate(std::int64_t nbytes, bool exportable) override {
        if (exportable) refuse_memory_export(*this);
        return detail::make_ref<Memory>(*this, nbytes);
    }
    BufferRef wrap(void* address, std::int64_t nbytes, Hold&& hold) override {
        if (refuses_to_wrap) throw Error(ErrorKind::memory, "wrap: refused");
        return detail::make_ref<Memory>(*this, address, nbytes, std::move(hold));
    }
    MemorySpace memory_space(const void*) const override { return {name, MemoryKind::device}; }
    void check_wrappable(const void*, std::int64_t, bool, const char*) const override {}
    detail::Ref<Executable> compile(const kernel::Specialization&) override { return {}; }
    void launch(Executable&, const LaunchArguments&) override {}
    void synchronize() override { ++waits; }
    std::int32_t dlpack_device_type() const noexcept override { return dlpack::cuda; }

    bool refuses_to_wrap = false;
    int waits = 0;
};

inline Device far_device(const std::string& name = "cuda", int index = 0) {
    return Device(detail::make_ref<FarDevice>(name, index));
}
inline FarDevice& as_far(const Device& device) { return static_cast<FarDevice&>(device.backend()); }

/// Another library's tensor over six int32, shape (2, 3), that counts the calls of its deleter.
/// Tests change what they are about; it must outlive what is imported from it.
template <class Managed>
struct Producer {
    Producer() {
        if constexpr (std::is_same_v<Managed, dlpack::ManagedTensorVersioned>)
            managed.version = {1, 0};
        managed.manager_ctx = this;
        managed.deleter = [](Managed* tensor) {
            ++static_cast<Producer*>(tensor->manager_ctx)->deleted;
        };
        tensor().data = elements;
        tensor().device = {dlpack::cpu, 0};
        tensor().dtype = {dlpack::code_int, 32, 1};
        layout({2, 3}, {3, 1});
    }
    Producer(const Producer&) = delete;

    dlpack::Tensor& tensor() { return managed.dl_tensor; }
    void layout(std::vector<std::int64_t> shape_, std::vector<std::int64_t> strides_) {
        shape = std::move(shape_);
        strides = std::move(strides_);
        tensor().ndim = static_cast<std::int32_t>(shape.size());
        tensor().shape = shape.data();
        tensor().strides = strides.data();
    }
    Array import(const Device& device = {}, bool writable = true) {
        return from_dlpack(&managed, device, writable);
    }

    alignas(64) std::int32_t elements[6] = {0, 1, 2, 3, 4, 5};
    std::vector<std::int64_t> shape;
    std::vector<std::int64_t> strides;
    Managed managed{};
    int deleted = 0;
};
using Legacy = Producer<dlpack::ManagedTensor>;
using Versioned = Producer<dlpack::ManagedTensorVersioned>;

}  // namespace tack::test
