#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include "support.hpp"
#include "tack/tack.hpp"

namespace {

using namespace tack;

template <class F>
Error error_of(F&& body) {
    try {
        body();
    } catch (const Error& error) {
        return error;
    }
    return Error(ErrorKind::runtime, "nothing was thrown");
}

bool says(const Error& error, const char* words) {
    return std::string(error.what()).find(words) != std::string::npos;
}

std::vector<float> numbers(std::size_t count) {
    std::vector<float> out(count);
    for (std::size_t k = 0; k < count; ++k) out[k] = static_cast<float>(k % 1000) * 0.5f;
    return out;
}

const Kernel& saxpy() {
    static const Kernel kernel("saxpy", [](Scalar<float> a, In<float> x, InOut<float> y) {
        parallel(x.size(), [&](Index i) { y[i] = a * x[i] + y[i]; });
    });
    return kernel;
}

class Saxpy : public testing::TestWithParam<std::size_t> {};

TEST_P(Saxpy, gives_the_same_for_any_length) {
    const std::vector<float> x = numbers(GetParam());
    Array y = full({static_cast<std::int64_t>(x.size())}, 3.0);
    saxpy()(2.0f, from_vector(x), y);
    const std::vector<float> out = y.to_vector<float>();
    for (std::size_t k = 0; k < x.size(); ++k) ASSERT_EQ(out[k], 2.0f * x[k] + 3.0f) << k;
}

INSTANTIATE_TEST_SUITE_P(Lengths, Saxpy, testing::Values(0, 1, 7, 64, 1000, 100'003, 1'000'000));

TEST(Kernel, guard_elements_around_an_output_stay_as_they_were) {
    const Array whole = full({1002}, -1.0f);
    Array inside =
        array_from_ptr(static_cast<float*>(whole.ptr()) + 1, DType::float32, {1000}, {}, true);
    Kernel set("set", [](Out<float> y) { parallel(y.size(), [&](Index i) { y[i] = 5.0; }); });
    set(inside);
    const std::vector<float> memory = whole.to_vector<float>();
    EXPECT_EQ(memory.front(), -1.0f);
    EXPECT_EQ(memory.back(), -1.0f);
    EXPECT_EQ(memory[1], 5.0f);
    EXPECT_EQ(memory[1000], 5.0f);
}

TEST(Kernel, three_dimensions_reach_every_element_once) {
    Kernel count("count", [](InOut<std::int32_t> y) {
        parallel(y.shape(0), y.shape(1), y.shape(2),
                 [&](Index i, Index j, Index k) { y(i, j, k) += 1 + i * 10000 + j * 100 + k; });
    });
    Array y = zeros({7, 31, 53}, DType::int32);
    count(y);
    const auto out = y.to_vector<std::int32_t>();
    for (int i = 0; i < 7; ++i)
        for (int j = 0; j < 31; ++j)
            for (int k = 0; k < 53; ++k)
                ASSERT_EQ(out[static_cast<std::size_t>((i * 31 + j) * 53 + k)],
                          1 + i * 10000 + j * 100 + k);
}

TEST(Kernel, the_result_does_not_depend_on_the_number_of_threads) {
    Kernel waves("waves", [](In<float> x, Out<float> y) {
        parallel(x.size(), [&](Index i) { y[i] = sin(x[i]) * sqrt(x[i]) / (x[i] + 0.1); });
    });
    const Array x = from_vector(numbers(300'000));
    const int before = num_threads();
    std::vector<std::vector<float>> results;
    for (const int threads : {1, 2, 3, 5}) {
        set_num_threads(threads);
        Array y = zeros(x.shape());
        waves(x, y);
        results.push_back(y.to_vector<float>());
    }
    set_num_threads(before);
    for (const auto& result : results) EXPECT_EQ(result, results.front());
}

TEST(Kernel, loops_branches_and_variables_act_in_the_kernel) {
    Kernel collatz("collatz", [](In<std::int64_t> x, Out<std::int64_t> steps) {
        parallel(x.size(), [&](Index i) {
            Var<std::int64_t> n = x[i];
            Var<std::int64_t> count = 0;
            while_([&] { return n > 1; },
                   [&] {
                       if_(n % 2 == 0, [&] { n = floor_divide(n, 2); }, [&] { n = 3 * n + 1; });
                       count += 1;
                   });
            steps[i] = count;
        });
    });
    const Array x = from_vector(std::vector<std::int64_t>{1, 2, 7, 27});
    Array steps = zeros({4}, DType::int64);
    collatz(x, steps);
    EXPECT_EQ(steps.to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 1, 16, 111}));
}

TEST(Kernel, atomics_count_every_iteration) {
    Kernel histogram("histogram", [](In<std::int32_t> x, InOut<std::int32_t> bins) {
        parallel(x.size(), [&](Index i) { atomic_add(bins[x[i]], 1); });
    });
    std::vector<std::int32_t> x(200'000);
    for (std::size_t k = 0; k < x.size(); ++k) x[k] = static_cast<std::int32_t>(k % 4);
    Array bins = zeros({4}, DType::int32);
    histogram(from_vector(x), bins);
    EXPECT_EQ(bins.to_vector<std::int32_t>(), std::vector<std::int32_t>(4, 50'000));
}

TEST(Kernel, an_atomic_minimum_with_a_nan_ends) {  // NVIDIA/cudf#11420
    Kernel lowest("lowest", [](In<float> x, InOut<float> cell) {
        parallel(x.size(), [&](Index i) { atomic_min(cell[0], x[i]); });
    });
    const float nan = std::numeric_limits<float>::quiet_NaN();
    Array cell = full({1}, nan);
    lowest(from_vector(std::vector<float>{1.0f, nan, 2.0f}), cell);
    EXPECT_TRUE(std::isnan(cell.to_vector<float>()[0]));
}

TEST(Kernel, overlapping_arguments_act_in_program_order_within_an_iteration) {
    Kernel twice("twice", [](In<float> x, Out<float> y, Out<float> z) {
        parallel(x.size(), [&](Index i) {
            y[i] = x[i] + 1;
            z[i] = x[i] * 2;  // reads what the line above stored, where x and y are one array
        });
    });
    Array shared = full({1000}, 1.0);
    Array z = zeros({1000});
    twice(shared, shared, z);
    EXPECT_EQ(shared.to_vector<float>()[999], 2.0f);
    EXPECT_EQ(z.to_vector<float>()[999], 4.0f);
}

TEST(Kernel, integer_division_is_python_s_and_by_zero_gives_zero) {  // NVIDIA/warp#1918
    Kernel divide("divide", [](In<std::int32_t> a, In<std::int32_t> b, Out<std::int32_t> q,
                               Out<std::int32_t> r) {
        parallel(a.size(), [&](Index i) {
            q[i] = floor_divide(a[i], b[i]);
            r[i] = a[i] % b[i];
        });
    });
    constexpr std::int32_t lowest = std::numeric_limits<std::int32_t>::min();
    const Array a = from_vector(std::vector<std::int32_t>{-7, 7, -7, 7, lowest, 5});
    const Array b = from_vector(std::vector<std::int32_t>{2, -2, -2, 2, -1, 0});
    Array q = zeros({6}, DType::int32);
    Array r = zeros({6}, DType::int32);
    divide(a, b, q, r);
    EXPECT_EQ(q.to_vector<std::int32_t>(), (std::vector<std::int32_t>{-4, -4, 3, 3, lowest, 0}));
    EXPECT_EQ(r.to_vector<std::int32_t>(), (std::vector<std::int32_t>{1, -1, -1, 1, 0, 0}));
}

TEST(Kernel, a_read_only_array_is_refused_by_name_where_the_kernel_may_store) {
    const Array memory = full({4}, 1.0f);
    const Array fixed = array_from_ptr(static_cast<const void*>(memory.ptr()), DType::float32, {4});
    const Error error = error_of([&] { saxpy()(2.0f, fixed, fixed); });
    EXPECT_EQ(error.kind(), ErrorKind::value);
    EXPECT_TRUE(says(error, "parameter 'arg2' is a read-only array")) << error.what();
    EXPECT_EQ(memory.to_vector<float>(), std::vector<float>(4, 1.0f));
}

TEST(Kernel, a_wrong_count_of_arguments_says_both_counts) {
    const Error error = error_of([&] { saxpy()(2.0f, zeros({4})); });
    EXPECT_EQ(error.kind(), ErrorKind::type);
    EXPECT_TRUE(says(error, "saxpy() takes 3 arguments but 2 were given")) << error.what();
}

TEST(Kernel, an_array_of_another_dtype_than_declared_is_refused) {
    const Error error = error_of([&] { saxpy()(2.0f, zeros({4}, DType::float64), zeros({4})); });
    EXPECT_EQ(error.kind(), ErrorKind::type);
    EXPECT_TRUE(says(error, "takes an array of float32, not an array of float64")) << error.what();
}

TEST(Kernel, an_int_for_a_float_parameter_is_its_value) {
    Array y = full({3}, 1.0);
    saxpy()(3, full({3}, 2.0), y);
    EXPECT_EQ(y.to_vector<float>(), std::vector<float>(3, 7.0f));
}

TEST(Kernel, a_mistake_in_the_function_fails_each_launch_alike) {  // NVIDIA/warp#1713
    Kernel wrong("wrong", [](In<float> x, Out<float> y) {
        parallel(x.size(), [&](Index i) { y[i] = x(i, i); });
    });
    Array y = zeros({3});
    std::string first;
    for (int launch = 0; launch < 3; ++launch) {
        const Error error = error_of([&] { wrong(zeros({3}), y); });
        EXPECT_EQ(error.kind(), ErrorKind::compile);
        if (launch == 0) first = error.what();
        EXPECT_EQ(first, error.what());
    }
    EXPECT_NE(first.find("test_kernel.cpp"), std::string::npos) << first;
    EXPECT_EQ(y.to_vector<float>(), std::vector<float>(3, 0.0f));
}

TEST(Kernel, a_value_used_outside_of_a_kernel_is_an_error) {
    EXPECT_EQ(error_of([] { Expr(1) + Expr(2); }).kind(), ErrorKind::runtime);
}

TEST(Kernel, two_kernels_of_one_name_are_two) {  // ml-explore/mlx#4275
    Kernel one("same", [](Out<float> y) { parallel(y.size(), [&](Index i) { y[i] = 1; }); });
    Kernel two("same", [](Out<float> y) { parallel(y.size(), [&](Index i) { y[i] = 2; }); });
    Array y = zeros({2});
    one(y);
    two(y);
    EXPECT_EQ(y.to_vector<float>(), std::vector<float>(2, 2.0f));
}

TEST(Kernel, an_empty_array_after_a_full_one_does_nothing) {  // triton-lang/triton-ascend#984
    Array y = zeros({8});
    saxpy()(2.0f, full({8}, 1.0), y);
    EXPECT_NO_THROW(saxpy()(2.0f, zeros({0}), zeros({0})));
}

TEST(Kernel, threads_may_launch_the_first_time_at_once) {  // NVIDIA/warp#1705
    Kernel fresh("fresh", [](In<float> x, Out<float> y) {
        parallel(x.size(), [&](Index i) { y[i] = x[i] + 41; });
    });
    std::vector<std::thread> threads;
    std::vector<float> results(4);
    for (std::size_t t = 0; t < results.size(); ++t)
        threads.emplace_back([&, t] {
            Array y = zeros({50'000});
            fresh(full({50'000}, 1.0), y);
            results[t] = y.to_vector<float>()[49'999];
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(results, std::vector<float>(4, 42.0f));
}

TEST(Kernel, half_precision_rounds_each_operation) {
    Kernel sum("sum", [](In<float16> x, Out<float16> y) {
        parallel(x.size(), [&](Index i) { y[i] = (x[i] + x[i]) - x[i]; });
    });
    const Array x = from_vector(std::vector<float16>{float16(65504.0f), float16(1.0f)});
    Array y = zeros({2}, DType::float16);
    sum(x, y);
    const auto out = y.to_vector<float16>();
    EXPECT_TRUE(std::isinf(float(out[0])));
    EXPECT_EQ(float(out[1]), 1.0f);
}

// what C++ expressions become

/// The lines of the loop's body in the program of a kernel over two arrays.
template <class F>
std::string traced(F body) {
    const Kernel kernel("kernel", [&](InOut<float> x, InOut<std::int32_t> n) {
        parallel(x.size(), [&](Index i) { body(i, x, n); });
    });
    const std::string text =
        kernel.inspect(kernel::Inspect::ir, zeros({1}), zeros({1}, DType::int32));
    std::string out;
    std::size_t at = text.find('\n', text.find("parallel")) + 1;
    for (; at < text.size(); at = text.find('\n', at) + 1)
        out += text.substr(at + 8, text.find('\n', at) - at - 7);
    return out;
}

TEST(TracedKernel, an_expression_is_one_statement) {
    EXPECT_EQ(traced([](Index i, auto& x, auto&) { x[i] = 2.0 * x[i] + x[i + 1]; }),
              "arg0[i] = ((2.0 * arg0[i]) + arg0[(i + 1)])\n");
}

TEST(TracedKernel, a_value_used_twice_is_evaluated_once) {
    EXPECT_EQ(traced([](Index i, auto& x, auto&) {
                  const Expr v = sqrt(x[i]);
                  x[i] = v * v;
              }),
              "t = sqrt(arg0[i])\narg0[i] = (t * t)\n");
}

TEST(TracedKernel, a_value_read_before_a_store_is_not_read_after_it) {
    EXPECT_EQ(traced([](Index i, auto& x, auto&) {
                  const Expr before = x[i];
                  x[i] = 0;
                  x[i + 1] = before;
              }),
              "t = arg0[i]\narg0[i] = 0\narg0[(i + 1)] = t\n");
}

TEST(TracedKernel, a_value_read_before_an_atomic_is_not_read_after_it) {
    EXPECT_EQ(traced([](Index i, auto& x, auto& n) {
                  const Expr before = n[0];
                  const Expr old = atomic_add(n[0], 1);
                  x[i] = before + old;
              }),
              "t = arg1[0]\nt.1 = atomic_add(arg1[0], 1)\narg0[i] = (t + t.1)\n");
}

TEST(TracedKernel, an_atomic_whose_old_value_is_not_used_is_a_statement) {
    EXPECT_EQ(traced([](Index i, auto&, auto& n) { atomic_add(n[i], 1); }),
              "atomic_add(arg1[i], 1)\n");
}

TEST(TracedKernel, a_value_that_nothing_uses_is_not_computed) {
    EXPECT_EQ(traced([](Index i, auto& x, auto&) {
                  static_cast<void>(sqrt(x[i]) / 2);
                  x[i] = 1;
              }),
              "arg0[i] = 1\n");
}

TEST(TracedKernel, a_while_has_its_condition) {
    EXPECT_EQ(traced([](Index i, auto& x, auto&) {
                  while_([&] { return x[i] < 4; }, [&] { x[i] += 1; });
              }),
              "while (arg0[i] < 4)\n    arg0[i] = (arg0[i] + 1)\n");
}

TEST(TracedKernel, numbers_stay_weak_through_an_expression) {
    Array x = full({1}, 0.7f);
    Kernel kernel("kernel", [](InOut<float> y) {
        parallel(y.size(), [&](Index i) {
            const Expr third = Expr(1.0) / 3;
            y[i] = y[i] * third + third;
        });
    });
    kernel(x);
    const auto third = static_cast<float>(1.0 / 3);
    EXPECT_EQ(x.to_vector<float>()[0], 0.7f * third + third);
}

TEST(Kernel, inspect_shows_program_source_and_assembly) {
    const Array x = zeros({4});
    EXPECT_NE(saxpy().inspect(kernel::Inspect::ir, 1.0f, x, x).find("parallel"), std::string::npos);
    EXPECT_NE(saxpy().inspect(kernel::Inspect::source, 1.0f, x, x).find("tack_kernel"),
              std::string::npos);
    EXPECT_NE(saxpy().inspect(kernel::Inspect::assembly, 1.0f, x, x).find("ret"),
              std::string::npos);
}

}  // namespace
