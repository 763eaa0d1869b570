#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backend/cpu/processor.hpp"
#include "backend/cpu/vector_math.hpp"
#include "tack/tack.hpp"

namespace {

using namespace tack;

const std::vector<ir::Math> unary = {
    ir::Math::acos,  ir::Math::acosh, ir::Math::asin, ir::Math::asinh, ir::Math::atan,
    ir::Math::atanh, ir::Math::cbrt,  ir::Math::cos,  ir::Math::cosh,  ir::Math::erf,
    ir::Math::erfc,  ir::Math::exp,   ir::Math::exp2, ir::Math::expm1, ir::Math::log,
    ir::Math::log10, ir::Math::log1p, ir::Math::log2, ir::Math::sin,   ir::Math::sinh,
    ir::Math::tan,   ir::Math::tanh};

/// Of every exponent and sign, and what is special.
template <class T>
std::vector<T> arguments() {
    std::vector<T> out{0,
                       T(-0.0),
                       1,
                       -1,
                       std::numeric_limits<T>::infinity(),
                       -std::numeric_limits<T>::infinity(),
                       std::numeric_limits<T>::quiet_NaN(),
                       std::numeric_limits<T>::denorm_min()};
    using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    const Bits step = std::numeric_limits<Bits>::max() / 4999 | 1;
    Bits bits = 0;
    while (out.size() < 5003) out.push_back(std::bit_cast<T>(bits += step));
    return out;
}

template <class T>
bool same(T a, T b) {
    return std::memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b);
}

template <class T>
class VectorMath : public testing::Test {};
using Floats = testing::Types<float, double>;
TYPED_TEST_SUITE(VectorMath, Floats);

TYPED_TEST(VectorMath, gives_an_element_the_same_value_at_any_place_in_the_array) {
    using T = TypeParam;
    const std::vector<T> x = arguments<T>();
    const Array in = from_vector(x);
    for (const ir::Math function : unary) {
        const Kernel kernel(std::string(ir::name(function)), [function](In<T> a, Out<T> b) {
            parallel(b.size(), [&](Index i) { b[i] = math(function, a[i]); });
        });
        Array all = empty({static_cast<std::int64_t>(x.size())}, dtype_of<T>);
        kernel(in, all);
        const std::vector<T> together = all.template to_vector<T>();
        for (std::size_t k = 0; k < x.size(); k += 7) {
            Array one = empty({1}, dtype_of<T>);
            kernel(from_vector(std::vector<T>{x[k]}), one);
            ASSERT_TRUE(same(together[k], one.template to_vector<T>()[0]))
                << ir::name(function) << "(" << x[k] << ")";
        }
    }
}

TYPED_TEST(VectorMath, gives_the_same_with_and_without_the_vectorizer) {
    using T = TypeParam;
    const std::vector<T> x = arguments<T>();
    const auto n = static_cast<std::int64_t>(x.size());
    for (const ir::Math function : {ir::Math::sin, ir::Math::exp, ir::Math::log}) {
        const Kernel forwards("forwards", [function](In<T> a, Out<T> b) {
            parallel(b.size(), [&](Index i) { b[i] = math(function, a[i]); });
        });
        // A store at an index that is looked up is no vector's.
        const Kernel scattered("scattered", [function](In<T> a, In<std::int64_t> at, Out<T> b) {
            parallel(b.size(), [&](Index i) { b[at[i]] = math(function, a[at[i]]); });
        });
        std::vector<std::int64_t> order(x.size());
        for (std::size_t k = 0; k < order.size(); ++k)
            order[k] = static_cast<std::int64_t>(k * 1009 % order.size());
        Array a = empty({n}, dtype_of<T>);
        Array b = empty({n}, dtype_of<T>);
        forwards(from_vector(x), a);
        scattered(from_vector(x), from_vector(order), b);
        const auto first = a.template to_vector<T>();
        const auto second = b.template to_vector<T>();
        for (std::size_t k = 0; k < x.size(); ++k)
            ASSERT_TRUE(same(first[k], second[k])) << ir::name(function) << "(" << x[k] << ")";
    }
}

TEST(VectorMath, every_vector_function_has_an_address_and_a_scalar_entry) {
    for (const cpu::VectorFunction& f : cpu::vector_functions()) {
        EXPECT_NE(cpu::math_symbol(f.vector), nullptr) << f.vector;
        EXPECT_NE(cpu::math_symbol(f.scalar), nullptr) << f.scalar;
        EXPECT_EQ(f.prefix.substr(0, 11), "_ZGV_LLVM_N") << f.prefix;
    }
}

TEST(VectorMath, sin_to_pow_have_vector_forms_where_the_processor_has_avx2_and_fma) {
    const auto& features = cpu::processor_features();
    const bool able = std::count(features.begin(), features.end(), "avx2") &&
                      std::count(features.begin(), features.end(), "fma");
    const auto known = cpu::vector_functions();
    for (const char* name : {"tack_sinf", "tack_cosf", "tack_expf", "tack_logf", "tack_powf",
                             "tack_sin", "tack_cos", "tack_exp", "tack_log", "tack_pow"})
        EXPECT_EQ(std::any_of(known.begin(), known.end(),
                              [&](const auto& f) { return f.scalar == name; }),
                  able)
            << name;
}

TEST(VectorMath, a_function_without_a_vector_form_is_the_c_librarys) {
    const auto lgamma_entry = reinterpret_cast<double (*)(double)>(cpu::math_symbol("tack_lgamma"));
    ASSERT_NE(lgamma_entry, nullptr);
    EXPECT_EQ(lgamma_entry(4.5), std::lgamma(4.5));
}

TEST(VectorMath, an_unknown_name_has_no_address) {
    EXPECT_EQ(cpu::math_symbol("tack_no_such_function"), nullptr);
    EXPECT_EQ(cpu::math_symbol("sinf"), nullptr);
}

}  // namespace
