// How often loops run, which the host computes ahead of a launch, and which code that chooses: on a
// queued device that notes what it would have run.
#include <optional>
#include <thread>
#include <vector>

#include "backend/gpu/queue.hpp"
#include "codegen/gpu_source.hpp"
#include "support.hpp"
#include "tack/tack.hpp"

namespace tack::test {
namespace {

using codegen::IndexWidth;
using Passes = std::vector<std::optional<std::int64_t>>;

constexpr std::int64_t two_31 = std::int64_t{1} << 31;

struct IdleQueue final : gpu::Queue {
    void wait() override {}
};

struct NotingDevice final : gpu::QueuedBackend {
    NotingDevice() : QueuedBackend("cuda", 0, detail::make_ref<IdleQueue>()) {}

    BufferRef allocate(std::int64_t nbytes, bool) override {
        return detail::make_ref<Memory>(*this, nullptr, nbytes);
    }
    BufferRef wrap(void* address, std::int64_t nbytes, Hold&&) override {
        return detail::make_ref<Memory>(*this, address, nbytes);
    }
    MemorySpace memory_space(const void*) const override { return {name, MemoryKind::device}; }
    void check_wrappable(const void*, std::int64_t, bool, const char*) const override {}
    std::int32_t dlpack_device_type() const noexcept override { return dlpack::cuda; }
    codegen::GpuSource emit(const kernel::Specialization& spec, IndexWidth width) const override {
        widths.push_back(width);
        return codegen::emit_cuda(spec, width);
    }
    detail::Ref<gpu::Module> build(const codegen::GpuSource&,
                                   const kernel::Specialization&) override {
        return detail::make_ref<gpu::Module>();
    }
    void enqueue(gpu::Module&, std::size_t, std::optional<std::int64_t> count,
                 std::span<void* const>) override {
        passes.push_back(count);
    }
    void wait_for_queue(QueuedBackend&) override {}

    struct Memory final : Buffer {
        Memory(NotingDevice& device, void* foreign, std::int64_t bytes)
            : Buffer(device, foreign, bytes) {}
        void read(void* host, std::int64_t bytes) const override {
            std::memset(host, 0, static_cast<std::size_t>(bytes));
        }
        void write(const void*, std::int64_t) override {}
    };

    mutable std::vector<IndexWidth> widths;
    Passes passes;
};

class LoopPasses : public testing::Test {
protected:
    /// An array of bytes that is nowhere.
    Array bytes(const Shape& shape) const {
        return array_from_ptr(reinterpret_cast<void*>(std::uintptr_t{1} << 20), DType::uint8, shape,
                              device, true);
    }
    Passes passes() { return std::exchange(noting().passes, {}); }
    std::vector<IndexWidth> widths() { return std::exchange(noting().widths, {}); }
    NotingDevice& noting() const { return static_cast<NotingDevice&>(device.backend()); }

    const Device device = Device(detail::make_ref<NotingDevice>());
    using Bytes = Out<std::uint8_t>;
};

TEST_F(LoopPasses, of_extents_are_their_product) {
    const Kernel all("all", [](Bytes x) {
        parallel(x.shape(0), x.shape(1), [&](Index i, Index j) { x(i, j) = 1; });
    });
    all(bytes({7, 9}));
    EXPECT_EQ(passes(), Passes{63});
    all(bytes({7, 0}));
    EXPECT_EQ(passes(), Passes{});
}

TEST_F(LoopPasses, follow_steps_of_either_sign) {
    const Kernel some("some", [](Bytes x, Scalar<std::int64_t> from, Scalar<std::int64_t> to,
                                 Scalar<std::int64_t> step) {
        parallel(Range(from, to, step), [&](Index i) { x[i] = 1; });
    });
    struct {
        std::int64_t from, to, step, expected;
    } const cases[] = {{0, 10, 3, 4},
                       {10, 0, -3, 4},
                       {0, 9, 3, 3},
                       {9, 9, 1, 0},
                       {5, 9, -1, 0},
                       {-4, 4, 2, 4},
                       {0, INT64_MAX, 1, INT64_MAX},
                       {0, INT64_MAX, INT64_MAX, 1}};
    for (const auto& c : cases) {
        some(bytes({8}), c.from, c.to, c.step);
        EXPECT_EQ(passes(), c.expected ? Passes{c.expected} : Passes{}) << c.from << " " << c.to;
    }
}

TEST_F(LoopPasses, beyond_63_bits_are_not_known) {
    const Kernel whole("whole", [](Bytes x, Scalar<std::int64_t> from, Scalar<std::int64_t> to) {
        parallel(Range(from, to), [&](Index i) { x[i] = 1; });
    });
    whole(bytes({8}), INT64_MIN, INT64_MAX);
    EXPECT_EQ(passes(), Passes{std::nullopt});
    const Kernel square("square", [](Bytes x, Scalar<std::int64_t> n) {
        parallel(n, n, [&](Index i, Index) { x[i] = 1; });
    });
    square(bytes({8}), std::int64_t{1} << 32);
    EXPECT_EQ(passes(), Passes{std::nullopt});
}

TEST_F(LoopPasses, of_an_element_are_not_known_and_the_code_is_wide) {
    const Kernel until("until", [](In<std::int64_t> bound, Bytes x) {
        parallel(bound[0], [&](Index i) { x[i] = 1; });
    });
    const Array bound =
        array_from_ptr(reinterpret_cast<void*>(std::uintptr_t{1} << 30), DType::int64, {1}, device);
    until(bound, bytes({8}));
    EXPECT_EQ(passes(), Passes{std::nullopt});
    EXPECT_EQ(widths(), std::vector{IndexWidth::wide});
}

TEST_F(LoopPasses, are_one_list_for_several_loops) {
    const Kernel two("two", [](Bytes x) {
        parallel(x.size(), [&](Index i) { x[i] = 1; });
        parallel(x.size() - 5, [&](Index i) { x[i] = 2; });
    });
    two(bytes({10}));
    EXPECT_EQ(passes(), (Passes{10, 5}));
}

TEST_F(LoopPasses, that_leave_no_room_for_a_block_below_2_to_the_31_take_wide_code) {
    const Kernel count("count", [](Bytes x, Scalar<std::int64_t> n) {
        parallel(n, [&](Index i) { x[i % 8] = 1; });
    });
    const Array x = bytes({8});
    count(x, two_31 - 4097);
    EXPECT_EQ(passes(), Passes{two_31 - 4097});
    EXPECT_EQ(widths(), std::vector{IndexWidth::narrow});
    count(x, two_31 - 4096);
    EXPECT_EQ(passes(), Passes{two_31 - 4096});
    EXPECT_EQ(widths(), std::vector{IndexWidth::wide});
    count(x, 3 * two_31 + 5);
    EXPECT_EQ(passes(), Passes{3 * two_31 + 5});
    EXPECT_EQ(widths(), std::vector<IndexWidth>{});  // made already
}

TEST_F(LoopPasses, over_arrays_of_2_gib_take_wide_code) {
    const Kernel first("first", [](Bytes x) { parallel(1, [&](Index i) { x[i] = 1; }); });
    first(bytes({two_31 - 1}));
    EXPECT_EQ(widths(), std::vector{IndexWidth::narrow});
    first(bytes({two_31}));
    EXPECT_EQ(widths(), std::vector{IndexWidth::wide});
}

}  // namespace
}  // namespace tack::test
