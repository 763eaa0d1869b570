// What the C++ front end has beside loops and branches: vectors, random numbers, checked bounds.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "support.hpp"
#include "tack/tack.hpp"

namespace {

using namespace tack;

using View = test::View<double>;

Error error_of(const Kernel& kernel, const Array& a, const Array& b) {
    try {
        kernel(a, b);
    } catch (const Error& error) {
        return error;
    }
    return Error(ErrorKind::runtime, "nothing was thrown");
}

const kernel::Options checked{.check_bounds = true};

TEST(CheckedKernel, an_index_out_of_range_is_an_index_error_and_the_rest_has_run) {
    const Kernel shift(
        "shift",
        [](In<double> x, Out<double> y) { parallel(y.size(), [&](Index i) { y[i] = x[i + 1]; }); },
        checked);
    std::vector<double> x{1, 2, 3};
    std::vector<double> y{9, 9, 9};
    const Error error = error_of(shift, *View(x), *View(y));
    EXPECT_EQ(error.kind(), ErrorKind::index);
    EXPECT_STREQ(std::string(error.what()).substr(0, 65).c_str(),
                 "shift: index 3 is out of range for axis 0 of 'arg0', whose extent");
    EXPECT_EQ(y, (std::vector<double>{2, 3, 0}));
}

TEST(CheckedKernel, a_branch_guards_an_index) {
    const Kernel guarded(
        "guarded",
        [](In<double> x, Out<double> y) {
            parallel(y.size(), [&](Index i) {
                y[i] = -1;
                if_(i < x.size(), [&] { y[i] = x[i]; });
            });
        },
        checked);
    std::vector<double> x{1, 2};
    std::vector<double> y{9, 9, 9};
    guarded(*View(x), *View(y));
    EXPECT_EQ(y, (std::vector<double>{1, 2, -1}));
}

TEST(Launch, arrays_of_two_memory_domains_are_refused_and_nothing_runs) {
    const Kernel copy("copy", [](In<double> x, Out<double> y) {
        parallel(x.size(), [&](Index i) { y[i] = x[i]; });
    });
    const Device far = test::far_device();
    std::vector<double> y{9};
    const Error error = error_of(copy, empty({1}, DType::float64, far), *View(y));
    EXPECT_EQ(error.kind(), ErrorKind::value);
    EXPECT_STREQ(
        error.what(),
        "copy: parameter 'arg1' is on cpu, other arrays are on cuda:0; bring them together "
        "with to_device()");
    EXPECT_EQ(y, std::vector<double>{9});
}

TEST(Random, the_published_vectors_of_philox_come_out) {
    const Kernel draw("draw", [](Scalar<std::uint64_t> seed, Scalar<std::uint64_t> i,
                                 Scalar<std::uint64_t> j, Out<double> out) {
        parallel(1, [&](Index k) {
            out[k] = random<double>(seed, i, j);
            out[k + 1] = random(seed, i, j);
        });
    });
    std::vector<double> out(2);
    const std::uint64_t seed = 0x299f31d0a4093822;
    draw(seed, std::uint64_t{0x85a308d3243f6a88}, std::uint64_t{0x0370734413198a2e}, *View(out));
    const std::uint64_t words = 0x94fdcceb'd16cfe09;
    EXPECT_EQ(out[0], static_cast<double>(words >> 11) * 0x1p-53);
    EXPECT_EQ(out[1], static_cast<double>(0xd16cfe09 >> 8) * 0x1p-24);
}

TEST(Random, float16_is_refused_naming_what_it_gives) {
    const Kernel draw("draw", [](In<double>, Out<double> out) {
        parallel(1, [&](Index k) { out[k] = random<float16>(1, k); });
    });
    std::vector<double> x(1);
    const Error error = error_of(draw, *View(x), *View(x));
    EXPECT_EQ(error.kind(), ErrorKind::compile);
    EXPECT_NE(std::string(error.what()).find("float32 or float64, not float16"), std::string::npos);
}

TEST(Vectors, operators_products_and_elements_are_those_of_python) {
    const Kernel k("k", [](In<double> x, Out<double> out) {
        parallel(1, [&](Index) {
            Vec<double, 3> u(x[0], x[1], x[2]);
            const Vec<double, 3> v(1, 2.5, -1);
            u = (-u + 2 * v) / 2 - u * v;
            u += v;
            u[0] += 1;
            const Vec<double, 3> c = cross(u, v);
            const Mat<double, 2, 3> m(u[0], u[1], u[2], v[0], v[1], v[2]);
            const Mat<double, 2, 2> s = matmul(m, Mat<double, 3, 2>(1, 2, 3, 4, 5, 6));
            const Vec<double, 2> w = matmul(2 * m - m, v);
            for (std::size_t j = 0; j < 3; ++j) out[static_cast<int>(j)] = u[j];
            out[3] = c[2];
            out[4] = s(1, 0);
            out[5] = w[1];
            out[6] = dot(u, v);
            out[7] = length(v);
        });
    });
    std::vector<double> x{4, 6, 8};
    std::vector<double> out(8);
    k(*View(x), *View(out));
    // u = (-x + 2 v) / 2 - x v + v
    const double u[] = {-1 - 4 + 1 + 1, -0.5 - 15 + 2.5, -5 + 8 - 1};
    EXPECT_EQ(out, (std::vector<double>{u[0], u[1], u[2], u[0] * 2.5 - u[1], 1 + 7.5 - 5,
                                        1 + 6.25 + 1, u[0] + u[1] * 2.5 - u[2], std::sqrt(8.25)}));
}

TEST(Vectors, an_index_may_be_computed_and_what_is_not_there_is_0) {
    const Kernel k("k", [](In<double> at, Out<double> out) {
        parallel(out.size(), [&](Index i) {
            const Index j = cast<std::int64_t>(at[i]);
            Vec<double, 2> v(10, 20);
            Mat<double, 2, 2> m(1, 2, 3, 4);
            v.set(j, 7);
            m.set(1, j, 100);
            out[i] = v[0] + v[1] + v[j] + 1000 * (m(1, 0) + m(1, 1)) + 1e6 * m(j, 0);
        });
    });
    std::vector<double> at{0, 1, 2, -1};
    std::vector<double> out(4);
    k(*View(at), *View(out));
    EXPECT_EQ(out, (std::vector<double>{7 + 20 + 7 + 104000 + 1e6, 10 + 7 + 7 + 103000 + 3e6,
                                        30 + 7000, 30 + 7000}));
}

TEST(Vectors, components_are_taken_by_a_plain_int_too) {
    const Kernel normalize("normalize", [](InOut<double> x) {
        parallel(floor_divide(x.size(), 3), [&](Index i) {
            Vec<double, 3> v(x[3 * i], x[3 * i + 1], x[3 * i + 2]);
            v /= length(v);
            for (int k = 0; k < 3; ++k) x[3 * i + k] = v[k];
        });
    });
    std::vector<double> x{3, 0, 4};
    normalize(*View(x));
    EXPECT_EQ(x, (std::vector<double>{0.6, 0, 0.8}));
}

TEST(Vectors, a_copy_is_a_variable_of_its_own) {
    const Kernel k("k", [](In<double>, Out<double> out) {
        parallel(1, [&](Index) {
            Vec<double, 2> u(1, 2);
            Vec<double, 2> v = u;
            u = Vec<double, 2>(u[1], u[0]);
            v[0] = 5;
            out[0] = 1000 * u[0] + 100 * u[1] + 10 * v[0] + v[1];
        });
    });
    std::vector<double> none(1);
    std::vector<double> out(1);
    k(*View(none), *View(out));
    EXPECT_EQ(out[0], 2152);
}

TEST(Loops, nested_serial_ranges_have_steps_of_either_sign) {
    const Kernel k("k", [](In<double>, Out<double> out) {
        parallel(1, [&](Index i) {
            Var<double> digits = 0;
            for_(Range(0, 4, 3), Range(2, 0, -1), [&](Index a, Index b) {
                if_(a == 3 && b == 1, [] { break_(); });
                digits = digits * 100 + a * 10 + b;
            });
            for_(2, 1, 2, [&](Index a, Index b, Index c) { digits += a + b + c; });
            out[i] = digits;
        });
    });
    std::vector<double> none(1);
    std::vector<double> out(1);
    k(*View(none), *View(out));
    EXPECT_EQ(out[0], 20132 + 4);
}

/// A device function is a plain function that is called while the kernel is built.
Expr clamped(const Expr& value, const Expr& low, const Expr& high) {
    return min(max(value, low), high);
}

TEST(Functions, a_called_function_becomes_part_of_the_kernel) {
    const Kernel k("k", [](In<double> x, Out<double> out) {
        parallel(x.size(), [&](Index i) { out[i] = clamped(round(x[i]), 0, 2) + 10 * x.ndim(); });
    });
    std::vector<double> x{-1.5, 0.5, 1.5, 7};
    std::vector<double> out(4);
    k(*View(x), *View(out));
    EXPECT_EQ(out, (std::vector<double>{10, 10, 12, 12}));
}

TEST(Loops, a_step_of_0_from_an_argument_is_a_value_error) {
    const Kernel k("k", [](Scalar<std::int64_t> step, Out<double> out) {
        parallel(Range(0, out.size(), step), [&](Index i) { out[i] = 1; });
    });
    std::vector<double> out(3);
    EXPECT_THROW(
        {
            try {
                k(std::int64_t{0}, *View(out));
            } catch (const Error& error) {
                EXPECT_EQ(error.kind(), ErrorKind::value);
                throw;
            }
        },
        Error);
    k(std::int64_t{2}, *View(out));
    EXPECT_EQ(out, (std::vector<double>{1, 0, 1}));
}

}  // namespace
