#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "support.hpp"
#include "tack/shape.hpp"

namespace tack {
namespace {

using test::expect_error;

Shape of_dimensions(int ndim) {
    std::vector<std::int64_t> extents(static_cast<std::size_t>(ndim));
    std::iota(extents.begin(), extents.end(), 1);
    return Shape(std::span<const std::int64_t>(extents));
}

// Either side of the limit of what an object holds itself.
struct ShapeOf : testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Dimensions, ShapeOf, testing::Values(0, 1, 8, 9, 64));

TEST_P(ShapeOf, keeps_its_extents) {
    const Shape shape = of_dimensions(GetParam());
    ASSERT_EQ(shape.ndim(), GetParam());
    for (int axis = 0; axis < shape.ndim(); ++axis) EXPECT_EQ(shape[axis], axis + 1);
}

TEST_P(ShapeOf, a_copy_is_equal_and_of_its_own) {
    const Shape original = of_dimensions(GetParam());
    const Shape copy = original;
    EXPECT_EQ(copy, original);
    EXPECT_NE(copy.data(), original.data());
}

TEST_P(ShapeOf, a_moved_shape_is_equal) {
    Shape original = of_dimensions(GetParam());
    const Shape moved = std::move(original);
    EXPECT_EQ(moved, of_dimensions(GetParam()));
}

TEST_P(ShapeOf, assignment_replaces_a_shape_of_any_length) {
    for (const int ndim : {0, 3, 8, 9, 20}) {
        Shape target = of_dimensions(ndim);
        target = of_dimensions(GetParam());
        EXPECT_EQ(target, of_dimensions(GetParam()));
    }
}

TEST_P(ShapeOf, survives_assignment_to_itself) {
    Shape shape = of_dimensions(GetParam());
    const Shape& same = shape;
    shape = same;
    EXPECT_EQ(shape, of_dimensions(GetParam()));
}

TEST(Shapes, more_than_64_dimensions_are_refused) {
    expect_error(ErrorKind::value, {"shape: 65 dimensions", "64"}, [] { of_dimensions(65); });
}

TEST(Shapes, shapes_of_different_length_or_extents_differ) {
    EXPECT_NE(Shape({2, 3}), Shape({3, 2}));
    EXPECT_NE(Shape({2}), Shape({2, 1}));
}

TEST(Shapes, text_is_that_of_a_tuple) {
    EXPECT_EQ(Shape().to_string(), "()");
    EXPECT_EQ(Shape({3}).to_string(), "(3,)");
    EXPECT_EQ(Shape({2, 3}).to_string(), "(2, 3)");
}

TEST(Shapes, the_size_is_the_product_and_one_without_dimensions) {
    EXPECT_EQ(Shape({2, 3, 4}).checked_size(8, "f"), 24);
    EXPECT_EQ(Shape().checked_size(8, "f"), 1);
}

TEST(Shapes, one_extent_of_zero_makes_the_size_zero_whatever_the_others_are) {
    constexpr std::int64_t big = std::int64_t{1} << 62;
    EXPECT_EQ(Shape({0}).checked_size(8, "f"), 0);
    EXPECT_EQ(Shape({big, big, 0}).checked_size(8, "f"), 0);
    EXPECT_EQ(Shape({0, big, big}).checked_size(8, "f"), 0);
}

TEST(Shapes, a_negative_extent_is_refused_even_beside_a_zero) {
    expect_error(ErrorKind::value, {"empty: shape (2, -1)", "negative"},
                 [] { Shape({2, -1}).checked_size(4, "empty"); });
    expect_error(ErrorKind::value, {"negative"}, [] { Shape({0, -5}).checked_size(4, "empty"); });
}

// tensorflow/tensorflow#116201: the product of the extents wraps around to 0 or to little.
TEST(Shapes, a_product_that_wraps_is_refused) {
    constexpr std::int64_t wide = std::int64_t{1} << 32;
    for (const Shape& shape : {Shape({wide, wide}), Shape({wide, wide + 1}),
                               Shape({wide, wide, wide, wide}), Shape({3, wide, wide})}) {
        expect_error(ErrorKind::value, {"f: shape " + shape.to_string(), "64-bit"},
                     [&] { shape.checked_size(1, "f"); });
    }
}

TEST(Shapes, the_limit_is_in_bytes_and_exact) {
    constexpr std::int64_t limit = std::numeric_limits<std::int64_t>::max();
    EXPECT_EQ(Shape({limit}).checked_size(1, "f"), limit);
    EXPECT_EQ(Shape({limit / 8}).checked_size(8, "f"), limit / 8);
    expect_error(ErrorKind::value, {"8-byte"}, [] { Shape({limit / 8 + 1}).checked_size(8, "f"); });
}

TEST(Shapes, strides_are_those_of_c_order) {
    EXPECT_EQ(Shape({2, 3, 4}).c_strides(), Shape({12, 4, 1}));
    EXPECT_EQ(Shape().c_strides(), Shape());
    EXPECT_EQ(of_dimensions(12).c_strides()[11], 1);
}

TEST(Shapes, strides_around_an_extent_of_zero_are_as_if_it_were_one) {
    EXPECT_EQ(Shape({2, 0, 3}).c_strides(), Shape({3, 3, 1}));
}

}  // namespace
}  // namespace tack
