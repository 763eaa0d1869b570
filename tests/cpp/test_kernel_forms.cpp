// Parallel loops have other forms for large outputs and for few cells: each must do what the plain
// form does.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "backend/cpu/processor.hpp"
#include "support.hpp"
#include "tack/tack.hpp"

namespace {

using namespace tack;

bool source_has(const Kernel& kernel, const char* words, const auto&... arguments) {
    return kernel.inspect(kernel::Inspect::source, arguments...).find(words) != std::string::npos;
}

/// Elements of `bytes` each, of which one array is larger than the caches.
std::int64_t beyond_the_caches(std::int64_t bytes) {
    return cpu::last_level_cache_bytes() / bytes + 1000;
}

template <class T>
class StreamingStores : public testing::Test {};
using Widths = testing::Types<std::uint8_t, std::int16_t, float, double>;
TYPED_TEST_SUITE(StreamingStores, Widths);

TYPED_TEST(StreamingStores, write_each_element_once_and_nothing_beside_whatever_the_alignment) {
    using T = TypeParam;
    const Kernel fill(
        "fill", [](Out<T> z) { parallel(z.size(), [&](Index i) { z[i] = cast<T>(i % 101); }); });
    const std::int64_t n = beyond_the_caches(sizeof(T));
    std::vector<T> memory(static_cast<std::size_t>(n) + 80, T(7));
    for (const std::int64_t offset : {1, 16, 37}) {
        Array z = array_from_ptr(memory.data() + offset, dtype_of<T>, {n}, {}, true);
        ASSERT_TRUE(source_has(fill, "enter_0_streaming", z));
        fill(z);
        for (std::int64_t k = 0; k < n; ++k)
            ASSERT_EQ(memory[static_cast<std::size_t>(offset + k)], T(k % 101)) << k;
        EXPECT_EQ(memory[static_cast<std::size_t>(offset) - 1], T(7));
        EXPECT_EQ(memory[static_cast<std::size_t>(offset + n)], T(7));
        std::fill(memory.begin(), memory.end(), T(7));
    }
}

TEST(StreamingStoresOfRows, leave_the_border_of_a_stencil_as_it_was) {
    const Kernel blur("blur", [](In<float> u, Out<float> v) {
        parallel({1, u.shape(0) - 1}, {1, u.shape(1) - 1},
                 [&](Index i, Index j) { v(i, j) = u(i - 1, j) + u(i, j + 1) * 2.0; });
    });
    const std::int64_t columns = 1031;
    const std::int64_t rows = beyond_the_caches(4) / columns + 1;
    std::vector<float> in(static_cast<std::size_t>(rows * columns));
    for (std::size_t k = 0; k < in.size(); ++k) in[k] = static_cast<float>(k % 1000);
    const Array u = from_vector(in, {rows, columns});
    Array v = full({rows, columns}, -1.0);
    ASSERT_TRUE(source_has(blur, "enter_0_streaming", u, v));
    blur(u, v);
    const auto out = v.to_vector<float>();
    for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < columns; ++j) {
            const auto at = static_cast<std::size_t>(i * columns + j);
            const bool border = i == 0 || j == 0 || i == rows - 1 || j == columns - 1;
            ASSERT_EQ(out[at], border
                                   ? -1.0f
                                   : in[at - static_cast<std::size_t>(columns)] + in[at + 1] * 2.0f)
                << i << ", " << j;
        }
}

struct NotStreamed {
    const char* why;
    std::function<void(InOut<float>, In<float>)> body;
};
class PlainStores : public testing::TestWithParam<NotStreamed> {};

TEST_P(PlainStores, are_kept_where_blocks_would_change_the_result) {
    const Kernel kernel("kernel", [](InOut<float> z, In<float> x) { GetParam().body(z, x); });
    EXPECT_FALSE(source_has(kernel, "streaming", zeros({8}), zeros({8})));
}

INSTANTIATE_TEST_SUITE_P(Reasons, PlainStores,
                         testing::Values(NotStreamed{"read",
                                                     [](auto z, auto x) {
                                                         parallel(x.size(), [&](Index i) {
                                                             z[i] = z[i] + x[i];
                                                         });
                                                     }},
                                         NotStreamed{"twice",
                                                     [](auto z, auto x) {
                                                         parallel(x.size(), [&](Index i) {
                                                             z[i] = x[i];
                                                             z[i] = x[i] + 1.0;
                                                         });
                                                     }},
                                         NotStreamed{"branch",
                                                     [](auto z, auto x) {
                                                         parallel(x.size(), [&](Index i) {
                                                             if_(x[i] > 0.0, [&] { z[i] = x[i]; });
                                                         });
                                                     }},
                                         NotStreamed{"stride",
                                                     [](auto z, auto x) {
                                                         parallel(Range(0, x.size(), 2),
                                                                  [&](Index i) { z[i] = x[i]; });
                                                     }},
                                         NotStreamed{"reversed",
                                                     [](auto z, auto x) {
                                                         parallel(x.size(), [&](Index i) {
                                                             z[x.size() - 1 - i] = x[i];
                                                         });
                                                     }}),
                         [](const auto& test) { return test.param.why; });

template <class T>
class Accumulation : public testing::Test {};
using Cells =
    testing::Types<std::int32_t, std::uint32_t, std::int64_t, std::uint64_t, float, double>;
TYPED_TEST_SUITE(Accumulation, Cells);

TYPED_TEST(Accumulation, counts_every_pass_in_few_cells_as_in_many) {
    using T = TypeParam;
    const Kernel histogram("histogram", [](In<std::int32_t> x, InOut<T> h) {
        parallel(x.size(), [&](Index i) { atomic_add(h[x[i]], 1); });
    });
    std::vector<std::int32_t> x(1'000'000);
    std::vector<T> expected(5000, T(3));
    for (std::size_t k = 0; k < x.size(); ++k) {
        x[k] = static_cast<std::int32_t>(k * k % 251);
        expected[static_cast<std::size_t>(x[k])] += T(1);
    }
    for (const std::int64_t cells : {251, 2048, 5000}) {
        Array h = full({cells}, 3.0, dtype_of<T>);
        ASSERT_EQ(source_has(histogram, "enter_0_accumulating", from_vector(x), h),
                  test::backend == "cpu");
        histogram(from_vector(x), h);
        EXPECT_EQ(h.template to_vector<T>(),
                  std::vector<T>(expected.begin(), expected.begin() + cells));
    }
}

TEST(AccumulationOfFloats, leaves_a_negative_zero_that_nothing_is_added_to) {
    const Kernel histogram("histogram", [](In<std::int32_t> x, InOut<float> h) {
        parallel(x.size(), [&](Index i) { atomic_add(h[x[i]], 1.0); });
    });
    Array h = full({2}, -0.0);
    histogram(from_vector(std::vector<std::int32_t>(100'000, 1)), h);
    EXPECT_TRUE(std::signbit(h.to_vector<float>()[0]));
    EXPECT_EQ(h.to_vector<float>()[1], 100'000.0f);
}

TEST(AccumulationOfOldValues, is_left_to_the_array_itself) {
    const Kernel tickets("tickets", [](InOut<std::int64_t> next, Out<std::int64_t> got) {
        parallel(got.size(), [&](Index i) { got[i] = atomic_add(next[0], 1); });
    });
    Array next = zeros({1}, DType::int64);
    Array got = zeros({100'000}, DType::int64);
    EXPECT_FALSE(source_has(tickets, "accumulating", next, got));
    tickets(next, got);
    auto all = got.to_vector<std::int64_t>();
    std::sort(all.begin(), all.end());
    std::vector<std::int64_t> each(all.size());
    std::iota(each.begin(), each.end(), 0);
    EXPECT_EQ(all, each);
}

}  // namespace
