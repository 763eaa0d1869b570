#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "support.hpp"
#include "tack/dlpack.hpp"

namespace tack {
namespace {

using test::as_far;
using test::expect_error;
using test::far_device;
using test::Legacy;
using test::Versioned;

// ---- a release in the deleter's place ----

int released = 0;

template <class Managed>
void count_and_release(void* tensor) noexcept {
    ++released;
    auto* managed = static_cast<Managed*>(tensor);
    managed->deleter(managed);
}

template <class Producer>
struct ReleaseEach : testing::Test {
    using Managed = decltype(Producer::managed);
    void SetUp() override { released = 0; }
    Array import() { return from_dlpack(&producer.managed, {}, true, count_and_release<Managed>); }
    Producer producer;
};
using Layouts = testing::Types<Legacy, Versioned>;
TYPED_TEST_SUITE(ReleaseEach, Layouts);

TYPED_TEST(ReleaseEach, is_called_once_instead_of_the_deleter) {
    {
        const Array array = this->import();
        EXPECT_EQ(released, 0);
    }
    EXPECT_EQ(released, 1);
    EXPECT_EQ(this->producer.deleted, 1);
}

TYPED_TEST(ReleaseEach, is_not_called_for_a_refused_tensor) {
    this->producer.tensor().data = nullptr;
    EXPECT_THROW(this->import(), Error);
    EXPECT_EQ(released, 0);
}

TYPED_TEST(ReleaseEach, is_not_called_for_a_tensor_without_a_deleter) {
    this->producer.managed.deleter = nullptr;
    this->import();
    EXPECT_EQ(released, 0);
}

TEST(Release, is_called_for_a_later_major_version) {
    Versioned producer;
    producer.managed.version.major = 2;
    released = 0;
    EXPECT_THROW(
        from_dlpack(&producer.managed, {}, true, count_and_release<dlpack::ManagedTensorVersioned>),
        Error);
    EXPECT_EQ(released, 1);
    EXPECT_EQ(producer.deleted, 1);
}

// ---- a tensor that owns nothing ----

TEST(BorrowedTensor, lies_in_the_array) {
    const Array array = zeros({2, 3, 4}, DType::float64);
    const dlpack::Tensor tensor = to_dlpack_tensor(array);
    EXPECT_EQ(tensor.data, array.ptr());
    EXPECT_EQ(tensor.shape, array.shape().data());
    EXPECT_EQ(std::vector(tensor.strides, tensor.strides + 3),
              (std::vector<std::int64_t>{12, 4, 1}));
    EXPECT_EQ(to_dlpack_tensor(Array(array)).strides, tensor.strides);
}

TEST(BorrowedTensor, waits_and_shares_the_memory) {
    const Device device = far_device();
    const Array array = empty({3}, DType::float32, device);
    const dlpack::Tensor tensor = to_dlpack_tensor(array);
    EXPECT_EQ(tensor.device.device_type, dlpack::cuda);
    EXPECT_EQ(as_far(device).waits, 1);
    EXPECT_TRUE(array.state()->buffer->shared());
}

TEST(BorrowedTensor, of_a_read_only_array_is_refused) {
    Versioned producer;
    producer.managed.flags = dlpack::flag_read_only;
    const Array array = producer.import();
    expect_error(ErrorKind::buffer, {"to_dlpack_tensor", "read-only", "a.copy()"},
                 [&] { to_dlpack_tensor(array); });
}

// ---- the allocator ----

struct Report {
    std::string kind;
    std::string text;
    static void set(void* context, const char* kind, const char* text) {
        *static_cast<Report*>(context) = {kind, text};
    }
};

dlpack::Tensor prototype(std::vector<std::int64_t>& shape) {
    dlpack::Tensor tensor{};
    tensor.device = dlpack_device(zeros({1}));
    tensor.dtype = {dlpack::code_float, 32, 1};
    tensor.ndim = static_cast<std::int32_t>(shape.size());
    tensor.shape = shape.data();
    return tensor;
}

TEST(AllocateDlpack, gives_memory_on_any_thread) {
    std::vector<std::int64_t> shape{2, 3};
    dlpack::Tensor wanted = prototype(shape);
    dlpack::ManagedTensorVersioned* tensor = nullptr;
    const std::int64_t before = live_exports();
    std::thread([&] {
        EXPECT_EQ(allocate_dlpack(&wanted, &tensor, nullptr, Report::set), 0);
    }).join();
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->dl_tensor.shape[1], 3);
    EXPECT_EQ(live_exports(), before + 1);
    tensor->deleter(tensor);
    EXPECT_EQ(live_exports(), before);
}

TEST(AllocateDlpack, reports_what_it_refuses) {
    std::vector<std::int64_t> shape{-1};
    dlpack::Tensor wanted = prototype(shape);
    dlpack::ManagedTensorVersioned* tensor = nullptr;
    Report report;
    EXPECT_EQ(allocate_dlpack(&wanted, &tensor, &report, Report::set), -1);
    EXPECT_EQ(report.kind, "ValueError");
    EXPECT_NE(report.text.find("negative"), std::string::npos);
    EXPECT_EQ(tensor, nullptr);
}

TEST(AllocateDlpack, needs_a_shape_where_there_are_dimensions) {
    std::vector<std::int64_t> shape{1};
    dlpack::Tensor wanted = prototype(shape);
    wanted.shape = nullptr;
    dlpack::ManagedTensorVersioned* tensor = nullptr;
    Report report;
    EXPECT_EQ(allocate_dlpack(&wanted, &tensor, &report, Report::set), -1);
    EXPECT_EQ(report.kind, "ValueError");
}

}  // namespace
}  // namespace tack
