// A device whose memory the host does not reach through Tack, for Python's tests: it runs no
// kernels, says what was asked of it, and waits where it is told to.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "backend/backend.hpp"
#include "tack/dlpack.hpp"
#include "tack/error.hpp"

namespace {

using namespace tack;

constexpr std::uint64_t own_stream = 0x5eed;
constexpr std::uint64_t bad_stream = 0xbad;
constexpr std::uint64_t good_handle = 77;
constexpr std::uintptr_t known_from = 1 << 16;  // addresses below are no memory of the device

struct State {
    std::atomic<int> synchronized{0};
    std::atomic<bool> closed{false};    // the gate before each wait
    std::atomic<bool> entered{false};   // someone stands there
    std::atomic<bool> gave_up{false};   // nobody opened it
    std::vector<std::uint64_t> waited;  // guarded by the GIL
};
State state;

void pass_gate() {
    if (!state.closed) return;
    state.entered = true;
    for (int k = 0; state.closed; ++k) {
        if (k == 10'000) {
            state.gave_up = true;
            return;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

void* allocate_bytes(std::int64_t nbytes) {
    return std::aligned_alloc(256, (static_cast<std::size_t>(nbytes) + 256) & ~std::size_t{255});
}

struct Memory final : Buffer {
    Memory(Backend& device, void* memory, std::int64_t bytes, Hold&& hold_, bool owned_,
           bool shared_from_the_start)
        : Buffer(device, memory, bytes), hold(std::move(hold_)), owned(owned_) {
        shared_.store(shared_from_the_start);
    }
    ~Memory() override {
        if (owned) std::free(address);
    }
    void read(void* host, std::int64_t bytes) const override {
        pass_gate();
        std::memcpy(host, address, static_cast<std::size_t>(bytes));
    }
    void write(const void* host, std::int64_t bytes) override {
        pass_gate();
        std::memcpy(address, host, static_cast<std::size_t>(bytes));
    }
    ExportedMemory export_memory() override {
        pass_gate();
        return {.backend = "cuda",
                .size = nbytes,
                .allocation_size = 4096,
                .handle = good_handle,
                .handle_type = "posix_fd",
                .device_uuid = std::vector<std::uint8_t>(16, 3)};
    }
    const Hold hold;
    const bool owned;
};

struct FarDevice final : Backend {
    FarDevice() : Backend("cuda", 0) {}

    BufferRef allocate(std::int64_t nbytes, bool) override {
        return detail::make_ref<Memory>(*this, allocate_bytes(nbytes), nbytes, Hold(), true, false);
    }
    BufferRef wrap(void* memory, std::int64_t nbytes, Hold&& hold) override {
        return detail::make_ref<Memory>(*this, memory, nbytes, std::move(hold), false, true);
    }
    MemorySpace memory_space(const void* memory) const override {
        if (reinterpret_cast<std::uintptr_t>(memory) < known_from) return {"unknown", {}};
        return {name, MemoryKind::device};
    }
    void check_wrappable(const void* memory, std::int64_t, bool,
                         const char* operation) const override {
        if (memory_space(memory).backend != name)
            throw Error(ErrorKind::value, std::string(operation) + ": no memory of the device");
    }
    detail::Ref<Executable> compile(const kernel::Specialization&) override {
        throw Error(ErrorKind::runtime, "compile: the device runs no kernels");
    }
    void launch(Executable&, const LaunchArguments&) override {}
    void synchronize() override {
        ++state.synchronized;
        pass_gate();
    }
    std::int32_t dlpack_device_type() const noexcept override { return dlpack::cuda; }

    BufferRef import_memory(const ExportedMemory& memory, std::int64_t nbytes) override {
        pass_gate();
        if (memory.handle != good_handle)
            throw Error(ErrorKind::runtime, "import_memory: the driver refuses the handle");
        return detail::make_ref<Memory>(*this, allocate_bytes(nbytes), nbytes, Hold(), true, true);
    }
    std::uint64_t stream() const noexcept override { return own_stream; }
    void wait_for_stream(std::uint64_t other) override {
        if (other == bad_stream)
            throw Error(ErrorKind::runtime, "wait_for_stream: the driver refuses the handle");
        state.waited.push_back(other);
    }
};

}  // namespace

#define FAR_API extern "C" __attribute__((visibility("default")))

FAR_API void far_make_default() { set_default_device(Device(detail::make_ref<FarDevice>())); }
FAR_API int far_synchronized() { return state.synchronized; }
/// How many waits for other streams there were; far_waited() is the k-th one's stream.
FAR_API int far_waits() { return static_cast<int>(state.waited.size()); }
FAR_API std::uint64_t far_waited(int k) { return state.waited[static_cast<std::size_t>(k)]; }
FAR_API void far_forget() {
    state.synchronized = 0;
    state.waited.clear();
}
FAR_API void far_close_gate() {
    state.entered = state.gave_up = false;
    state.closed = true;
}
FAR_API void far_open_gate() { state.closed = false; }
FAR_API int far_entered() { return state.entered; }
FAR_API int far_gave_up() { return state.gave_up; }
