#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

#include "support.hpp"
#include "tack/array.hpp"

namespace tack {
namespace {

using test::expect_error;
using test::far_device;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

// ---- allocation ----

TEST(Empty, has_the_shape_and_dtype_and_is_writable) {
    const Array array = empty({2, 3}, DType::int16);
    EXPECT_EQ(array.shape(), Shape({2, 3}));
    EXPECT_EQ(array.dtype(), DType::int16);
    EXPECT_EQ(array.ndim(), 2);
    EXPECT_EQ(array.size(), 6);
    EXPECT_EQ(array.nbytes(), 12);
    EXPECT_TRUE(array.writable());
    EXPECT_EQ(array.device(), device(test::backend));
}

TEST(Empty, is_float32_unless_told) { EXPECT_EQ(empty({1}).dtype(), DType::float32); }

TEST(Empty, memory_is_aligned_to_64_bytes) {
    std::vector<Array> kept;
    for (std::int64_t size = 1; size < 200; ++size) {
        kept.push_back(empty({size}, DType::uint8));
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(kept.back().ptr()) % 64, 0u) << size;
    }
}

TEST(Empty, without_elements_allocates_nothing) {
    const Array array = empty({3, 0});
    EXPECT_EQ(array.size(), 0);
    EXPECT_EQ(array.nbytes(), 0);
    EXPECT_EQ(array.ptr(), nullptr);
}

TEST(Empty, more_than_there_is_says_how_much) {
    expect_error(ErrorKind::memory, {"4611686018427387904 bytes"},
                 [] { empty({std::int64_t{1} << 59}, DType::float64); });
    expect_error(ErrorKind::memory, {"9223372036854775807 bytes"},
                 [] { empty({std::numeric_limits<std::int64_t>::max()}, DType::uint8); });
}

TEST(Empty, a_shape_that_has_no_size_is_refused_by_each_maker) {
    constexpr std::int64_t wide = std::int64_t{1} << 32;
    expect_error(ErrorKind::value, {"empty: shape (-1,)"}, [] { empty({-1}); });
    expect_error(ErrorKind::value, {"zeros: shape"}, [] { zeros({wide, wide}); });
    expect_error(ErrorKind::value, {"full: shape"}, [] { full({wide, wide}, 1); });
}

TEST(Empty, a_number_that_is_no_dtype_is_refused) {
    expect_error(ErrorKind::type, {"dtype: 99"}, [] { empty({1}, static_cast<DType>(99)); });
}

TEST(Empty, exportable_memory_is_refused_on_the_host) {
    expect_error(ErrorKind::runtime, {"Backend cpu does not support memory export"},
                 [] { empty({4}, DType::float32, {}, true); });
}

TEST(ExportMemory, is_refused_on_the_host_with_the_same_text) {
    std::string exportable;
    try {
        empty({4}, DType::float32, {}, true);
    } catch (const Error& error) {
        exportable = error.what();
    }
    expect_error(ErrorKind::runtime, {"Backend cpu does not support memory export", exportable},
                 [] { export_memory(zeros({4})); });
}

TEST(Zeros, are_zero_in_every_dtype) {
    for (int k = 0; k < dtype_count; ++k) {
        const auto dtype = static_cast<DType>(k);
        const Array array = zeros({5}, dtype);
        std::vector<char> bytes(static_cast<std::size_t>(array.nbytes()), 'x');
        array.read(bytes.data(), array.nbytes());
        EXPECT_EQ(bytes, std::vector<char>(bytes.size(), 0)) << name(dtype);
    }
}

// ---- fill ----

template <class T>
T filled(double value) {
    const auto elements = full({3}, value, dtype_of<T>).template to_vector<T>();
    EXPECT_TRUE(elements[0] == elements[2] || elements[0] != elements[0]);
    return elements[1];
}

template <class T>
struct FillInteger : testing::Test {};
using Integers = testing::Types<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t,
                                std::uint16_t, std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(FillInteger, Integers);

TYPED_TEST(FillInteger, saturates) {
    using Limits = std::numeric_limits<TypeParam>;
    EXPECT_EQ(filled<TypeParam>(infinity), Limits::max());
    EXPECT_EQ(filled<TypeParam>(-infinity), Limits::min());
    EXPECT_EQ(filled<TypeParam>(std::ldexp(1.0, Limits::digits)), Limits::max());
    EXPECT_EQ(filled<TypeParam>(-1e30), Limits::min());
}

TYPED_TEST(FillInteger, is_exact_next_to_the_limits) {
    using Limits = std::numeric_limits<TypeParam>;
    const double below = std::nextafter(std::ldexp(1.0, Limits::digits), 0.0);
    EXPECT_EQ(filled<TypeParam>(below), static_cast<TypeParam>(below));
    EXPECT_EQ(filled<TypeParam>(static_cast<double>(Limits::min())), Limits::min());
}

TYPED_TEST(FillInteger, takes_nan_as_zero) { EXPECT_EQ(filled<TypeParam>(nan), 0); }

TYPED_TEST(FillInteger, rounds_towards_zero) {
    EXPECT_EQ(filled<TypeParam>(2.9), 2);
    EXPECT_EQ(filled<TypeParam>(-0.9), 0);
}

TYPED_TEST(FillInteger, from_integers_saturates) {
    using Limits = std::numeric_limits<TypeParam>;
    Array array = zeros({1}, dtype_of<TypeParam>);
    const auto after = [&array](auto value) {
        fill(array, value);
        return array.to_vector<TypeParam>()[0];
    };
    constexpr auto least = std::numeric_limits<std::int64_t>::min();
    constexpr auto most = std::numeric_limits<std::uint64_t>::max();
    EXPECT_EQ(after(most), Limits::max());
    EXPECT_EQ(after(least), Limits::min());
    EXPECT_EQ(after(std::int64_t{100}), 100);
}

TEST(Fill, carries_64_bit_integers_exactly) {
    constexpr std::int64_t odd = (std::int64_t{1} << 62) + 1;
    Array integers = zeros({2}, DType::int64);
    fill(integers, odd);
    EXPECT_EQ(integers.to_vector<std::int64_t>(), std::vector<std::int64_t>(2, odd));

    constexpr auto most = std::numeric_limits<std::uint64_t>::max();
    Array unsigned_integers = zeros({2}, DType::uint64);
    fill(unsigned_integers, most - 1);
    EXPECT_EQ(unsigned_integers.to_vector<std::uint64_t>(),
              std::vector<std::uint64_t>(2, most - 1));
}

TEST(Fill, makes_a_bool_of_whether_it_differs_from_zero) {
    for (const double value : {1.0, -0.5, 256.0, 1e-300, nan}) {
        std::uint8_t byte = 0;
        full({1}, value, DType::bool_).read(&byte, 1);
        EXPECT_EQ(byte, 1) << value;
    }
    std::uint8_t byte = 1;
    Array flag = full({1}, -0.0, DType::bool_);
    flag.read(&byte, 1);
    EXPECT_EQ(byte, 0);
    fill(flag, std::int64_t{256});
    flag.read(&byte, 1);
    EXPECT_EQ(byte, 1);
}

// Halfway between two float16 lies 1 + 2^-11; a float in between would round the rest away.
TEST(Fill, rounds_to_16_bit_floats_once) {
    const double above_a_tie = 1 + std::ldexp(1, -11) + std::ldexp(1, -40);
    EXPECT_EQ(filled<float16>(above_a_tie).bits, 0x3c01);
    EXPECT_EQ(filled<float16>(1 + std::ldexp(1, -11)).bits, 0x3c00);
    EXPECT_EQ(filled<bfloat16>(1 + std::ldexp(1, -8) + std::ldexp(1, -40)).bits, 0x3f81);
    EXPECT_EQ(filled<float16>(1e9).bits, 0x7c00);
}

TEST(Fill, rounds_integers_to_floats_once) {
    // One above a tie of bfloat16, where a double in between would land on the tie.
    constexpr std::int64_t above_a_tie = (std::int64_t{1} << 62) + (std::int64_t{1} << 54) + 1;
    Array half = zeros({1}, DType::bfloat16);
    fill(half, above_a_tie);
    EXPECT_EQ(half.to_vector<bfloat16>()[0].bits, 0x5e81);
    fill(half, -above_a_tie);
    EXPECT_EQ(half.to_vector<bfloat16>()[0].bits, 0xde81);

    constexpr std::int64_t above_a_float_tie =
        (std::int64_t{1} << 60) + (std::int64_t{1} << 36) + 1;
    Array single = zeros({1}, DType::float32);
    fill(single, above_a_float_tie);
    EXPECT_EQ(single.to_vector<float>()[0], std::ldexp(1 + std::ldexp(1.0f, -23), 60));
}

TEST(Fill, reaches_every_element_of_every_width) {
    for (const DType dtype : {DType::uint8, DType::uint16, DType::uint32, DType::uint64}) {
        const Array array = full({3, 5}, 7, dtype);
        std::vector<char> bytes(static_cast<std::size_t>(array.nbytes()));
        array.read(bytes.data(), array.nbytes());
        const auto width = static_cast<std::size_t>(itemsize(dtype));
        for (std::size_t k = 0; k < bytes.size(); ++k) EXPECT_EQ(bytes[k], k % width == 0 ? 7 : 0);
    }
}

TEST(Fill, works_on_device_memory) {
    const Array array = full({4}, 2.5, DType::float32, far_device());
    EXPECT_EQ(array.to_vector<float>(), std::vector<float>(4, 2.5f));
}

TEST(Fill, is_nothing_without_elements) {
    Array array = empty({0});
    fill(array, 1.0);
    EXPECT_EQ(array.size(), 0);
}

// ---- read-only arrays ----

/// One int32 that may not be written.
Array read_only() { return from_dlpack(to_dlpack(zeros({1}, DType::int32)), {}, false); }

TEST(ReadOnly, writes_are_refused) {
    const std::int32_t value = 1;
    Array array = read_only();
    expect_error(ErrorKind::runtime, {"fill: ", "read-only"}, [&] { fill(array, 2.0); });
    expect_error(ErrorKind::runtime, {"write: ", "read-only", "int32", "(1,)"},
                 [&] { array.write(&value, 4); });
}

TEST(ReadOnly, the_host_reads_in_place) {
    const Array array = read_only();
    expect_error(ErrorKind::runtime, {"data: ", "read-only"}, [&] { array.data<std::int32_t>(); });
    EXPECT_EQ(array.data<const std::int32_t>(), array.ptr());
}

TEST(ReadOnly, a_copy_is_writable_and_a_reshape_is_not) {
    const Array array = read_only();
    EXPECT_TRUE(array.copy().writable());
    EXPECT_FALSE(array.reshape({}).writable());
}

// ---- host access ----

TEST(HostAccess, a_vector_goes_in_and_comes_out) {
    const std::vector<std::int16_t> values{1, -2, 3, 4, 5, 6};
    const Array array = from_vector(values, {3, 2});
    EXPECT_EQ(array.shape(), Shape({3, 2}));
    EXPECT_EQ(array.to_vector<std::int16_t>(), values);
    EXPECT_EQ(from_vector(values).shape(), Shape({6}));
    EXPECT_EQ(from_vector(std::vector<float>{}).size(), 0);
}

TEST(HostAccess, a_vector_of_another_size_is_refused) {
    expect_error(ErrorKind::value, {"3 elements", "(2, 2)"},
                 [] { from_vector(std::vector<float>{1, 2, 3}, {2, 2}); });
}

TEST(HostAccess, the_number_of_bytes_must_be_the_arrays) {
    Array array = zeros({4});
    float host[5] = {};
    expect_error(ErrorKind::value, {"read: 20 bytes", "16"}, [&] { array.read(host, 20); });
    expect_error(ErrorKind::value, {"write: 12 bytes", "16"}, [&] { array.write(host, 12); });
}

TEST(HostAccess, a_null_host_address_is_refused) {
    Array array = zeros({4});
    expect_error(ErrorKind::value, {"read: ", "null"}, [&] { array.read(nullptr, 16); });
    expect_error(ErrorKind::value, {"write: ", "null"}, [&] { array.write(nullptr, 16); });
}

TEST(HostAccess, another_dtype_is_refused_by_name) {
    const Array array = zeros({4});
    expect_error(ErrorKind::type, {"to_vector: ", "float32", "int32"},
                 [&] { array.to_vector<std::int32_t>(); });
    expect_error(ErrorKind::type, {"data: ", "float32", "float64"}, [&] { array.data<double>(); });
}

TEST(HostAccess, data_is_the_memory_and_shares_it) {
    const Array array = zeros({4});
    EXPECT_FALSE(array.state()->buffer->shared());
    EXPECT_EQ(array.data<float>(), array.ptr());
    EXPECT_TRUE(array.state()->buffer->shared());
}

TEST(HostAccess, device_memory_has_no_host_address) {
    const Array array = zeros({4}, DType::float32, far_device("cuda", 1));
    expect_error(ErrorKind::runtime, {"data: ", "cuda:1", "to_vector()"},
                 [&] { array.data<float>(); });
}

TEST(HostAccess, device_memory_without_elements_has_no_address_at_all) {
    EXPECT_EQ(zeros({0}, DType::float32, far_device()).data<float>(), nullptr);
}

// ---- copies ----

TEST(Copy, has_memory_of_its_own) {
    Array original = from_vector(std::vector<float>{1, 2, 3});
    const Array copy = original.copy();
    fill(original, 0.0);
    EXPECT_EQ(copy.to_vector<float>(), (std::vector<float>{1, 2, 3}));
    EXPECT_EQ(copy.device(), original.device());
}

TEST(Copy, of_no_elements_is_one) { EXPECT_EQ(empty({0, 2}).copy().shape(), Shape({0, 2})); }

TEST(Copy, stays_on_a_device_that_the_host_cannot_reach) {
    const Device far = far_device();
    const Array copy = full({3}, 4, DType::float32, far).copy();
    EXPECT_EQ(copy.device(), far);
    EXPECT_EQ(copy.to_vector<float>(), std::vector<float>(3, 4.0f));
}

TEST(ToDevice, is_the_same_array_where_it_is_already) {
    const Array array = zeros({3});
    EXPECT_EQ(array.to_device(test::backend).state(), array.state());
}

TEST(ToDevice, goes_there_and_back) {
    const std::vector<float> values{1, 2, 3, 4};
    const Array there = from_vector(values, {2, 2}).to_device(far_device());
    EXPECT_EQ(there.device().name(), "cuda");
    const Array back = there.to_device("cpu");
    EXPECT_EQ(back.shape(), Shape({2, 2}));
    EXPECT_EQ(back.to_vector<float>(), values);
}

TEST(Share, waits_for_the_queued_work_and_stays) {
    const Device far = far_device();
    const Array array = zeros({4}, DType::float32, far);
    EXPECT_FALSE(array.state()->buffer->shared());
    array.state()->buffer->share();
    EXPECT_EQ(test::as_far(far).waits, 1);
    EXPECT_TRUE(array.reshape({2, 2}).state()->buffer->shared());
}

// ---- reshape ----

TEST(Reshape, is_the_same_memory) {
    const Array array = from_vector(std::vector<int>{1, 2, 3, 4, 5, 6});
    const Array view = array.reshape({2, 3});
    EXPECT_EQ(view.ptr(), array.ptr());
    EXPECT_EQ(view.shape(), Shape({2, 3}));
}

TEST(Reshape, keeps_the_memory_alive) {
    Array array = from_vector(std::vector<int>{1, 2, 3, 4});
    const Array view = array.reshape({2, 2});
    array = Array();
    EXPECT_EQ(view.to_vector<int>(), (std::vector<int>{1, 2, 3, 4}));
}

TEST(Reshape, finds_the_one_unknown_extent) {
    const Array array = zeros({4, 6});
    EXPECT_EQ(array.reshape({-1}).shape(), Shape({24}));
    EXPECT_EQ(array.reshape({3, -1, 2}).shape(), Shape({3, 4, 2}));
    EXPECT_EQ(array.reshape({24, -1}).shape(), Shape({24, 1}));
    EXPECT_EQ(zeros({0, 6}).reshape({-1, 3}).shape(), Shape({0, 3}));
    EXPECT_EQ(zeros({0}).reshape({-1}).shape(), Shape({0}));
    EXPECT_EQ(zeros({}).reshape({-1}).shape(), Shape({1}));
}

TEST(Reshape, between_shapes_of_no_elements_is_free) {
    constexpr std::int64_t wide = std::int64_t{1} << 40;
    EXPECT_EQ(zeros({0, 3}).reshape({wide, wide, 0}).shape(), Shape({wide, wide, 0}));
    EXPECT_EQ(zeros({1}).reshape({}).shape(), Shape());
}

TEST(Reshape, other_sizes_are_refused_with_both_shapes) {
    const Array array = zeros({4, 6});
    constexpr std::int64_t wide = std::int64_t{1} << 32;
    for (const Shape& shape : {Shape({5, 5}), Shape({}), Shape({0}), Shape({24, 2}),
                               Shape({wide, wide}), Shape({24, wide, wide})}) {
        expect_error(ErrorKind::value,
                     {"reshape: ", "24 elements", "(4, 6)", shape.to_string(), "sizes differ"},
                     [&] { array.reshape(shape); });
    }
}

TEST(Reshape, an_unknown_extent_must_come_out_whole) {
    const Array array = zeros({4, 6});
    constexpr std::int64_t wide = std::int64_t{1} << 32;
    expect_error(ErrorKind::value, {"(5, -1)", "do not divide"}, [&] { array.reshape({5, -1}); });
    expect_error(ErrorKind::value, {"do not divide"}, [&] { array.reshape({wide, wide, -1}); });
    expect_error(ErrorKind::value, {"could be anything"}, [&] { array.reshape({0, -1}); });
    expect_error(ErrorKind::value, {"could be anything"}, [] { zeros({0}).reshape({0, -1}); });
}

TEST(Reshape, two_unknown_extents_are_refused) {
    expect_error(ErrorKind::value, {"only one extent"}, [] { zeros({4}).reshape({-1, -1}); });
}

TEST(Reshape, other_negative_extents_are_refused) {
    expect_error(ErrorKind::value, {"negative"}, [] { zeros({4}).reshape({-2, -2}); });
    expect_error(ErrorKind::value, {"negative"}, [] { zeros({4}).reshape({4, -4}); });
}

// ---- handles ----

TEST(Handles, an_empty_one_is_false) {
    EXPECT_FALSE(Array());
    EXPECT_TRUE(zeros({1}));
}

TEST(Handles, a_copy_is_the_same_array) {
    const Array array = zeros({2});
    const Array same = array;
    EXPECT_EQ(same.state(), array.state());
}

TEST(Handles, are_copied_and_dropped_by_many_threads) {
    const Array array = zeros({16});
    std::vector<std::thread> threads;
    for (int k = 0; k < 4; ++k) {
        threads.emplace_back([&array] {
            for (int round = 0; round < 1000; ++round) {
                const Array view = Array(array).reshape({4, 4});
                ASSERT_EQ(view.ptr(), array.ptr());
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tack
