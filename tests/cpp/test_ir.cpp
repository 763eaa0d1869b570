#include <gtest/gtest.h>

#include "kernel/ir.hpp"
#include "kernel/specialization.hpp"
#include "tack/error.hpp"

namespace {

using namespace tack;
using ir::Builder;
using ir::Local;
using ir::Parameter;
using ir::Value;

/// A builder inside a parallel loop over a one-dimensional array x, with an array y to store to.
struct InLoop {
    Builder b{"k"};
    Parameter x = b.parameter("x");
    Parameter y = b.parameter("y");
    Local i = b.local("i");

    InLoop() {
        b.source("file.py", 10, "def k(x, y):\n    for i in range(len(x)):\n        y[i] = x\n");
        b.at(11, 5);
        const ir::Range range{b.literal(std::int64_t{0}), b.size(x), b.literal(std::int64_t{1})};
        b.parallel({&i, 1}, {&range, 1});
        b.at(12, 9);
    }
    Value at(Parameter p) {
        const Value index = b.use(i);
        return b.load(p, {&index, 1});
    }
    void store(Value v) {
        const Value index = b.use(i);
        b.store(y, {&index, 1}, v);
    }
    kernel::Specialization specialize(DType dx, DType dy) {
        b.end();
        return kernel::specialize(
            b.finish(), {{true, kernel::strong(dx), 1, 0}, {true, kernel::strong(dy), 1, 1}}, {},
            true);
    }
};

std::string message_of(const std::function<void()>& body) {
    try {
        body();
    } catch (const Error& error) {
        return error.what();
    }
    return "nothing was thrown";
}

TEST(Builder, programs_that_are_built_alike_have_equal_text) {
    InLoop a;
    InLoop b;
    for (InLoop* k : {&a, &b}) {
        k->store(k->b.binary(ir::Binary::multiply, k->b.literal(2.0), k->at(k->x)));
        k->b.end();
    }
    const std::string text = ir::to_string(*a.b.finish());
    EXPECT_EQ(text, ir::to_string(*b.b.finish()));
    EXPECT_NE(text.find("y[i] = (2.0 * x[i])"), std::string::npos) << text;
}

TEST(Builder, a_negated_literal_is_a_literal) {
    InLoop k;
    k.store(k.b.unary(ir::Unary::negative, k.b.literal(std::int64_t{200})));
    k.b.end();
    EXPECT_NE(ir::to_string(*k.b.finish()).find("y[i] = -200"), std::string::npos);
}

TEST(Builder, a_break_of_the_parallel_loop_is_refused_at_its_line) {  // taichi-dev/taichi#4223
    InLoop k;
    const std::string message = message_of([&] { k.b.break_loop(); });
    EXPECT_NE(message.find("file.py:12:9"), std::string::npos) << message;
    EXPECT_NE(message.find("continue"), std::string::npos) << message;
}

TEST(Builder, a_store_outside_parallel_loops_shows_the_loop_to_write) {
    Builder b("k");
    const Parameter x = b.parameter("x");
    const Value zero = b.literal(std::int64_t{0});
    const std::string message = message_of([&] { b.store(x, {&zero, 1}, b.literal(1.0)); });
    EXPECT_NE(message.find("for i in range(1)"), std::string::npos) << message;
}

TEST(Builder, an_error_shows_the_line_and_points_at_the_column) {
    InLoop k;
    const std::string message = message_of([&] { k.b.fail("no"); });
    EXPECT_EQ(message, "file.py:12:9: error: no\n    y[i] = x\n    ^");
}

struct Promotion {
    DType a, b, result;
};
class Promote : public testing::TestWithParam<Promotion> {};

TEST_P(Promote, follows_numpy_in_both_orders) {
    const auto [a, b, result] = GetParam();
    EXPECT_EQ(kernel::promote(a, b), result);
    EXPECT_EQ(kernel::promote(b, a), result);
}

INSTANTIATE_TEST_SUITE_P(Pairs, Promote,
                         testing::Values(Promotion{DType::int8, DType::uint8, DType::int16},
                                         Promotion{DType::int32, DType::uint32, DType::int64},
                                         Promotion{DType::int64, DType::uint64, DType::float64},
                                         Promotion{DType::int64, DType::uint32, DType::int64},
                                         Promotion{DType::bool_, DType::uint8, DType::uint8},
                                         Promotion{DType::int8, DType::float16, DType::float16},
                                         Promotion{DType::int16, DType::float16, DType::float32},
                                         Promotion{DType::int32, DType::float32, DType::float64},
                                         Promotion{DType::uint16, DType::float32, DType::float32},
                                         Promotion{DType::float16, DType::bfloat16, DType::float32},
                                         Promotion{DType::float32, DType::float64,
                                                   DType::float64}));

TEST(Promote, a_weak_float_takes_a_float32_s_type_and_makes_an_int_float64) {
    EXPECT_EQ(kernel::promote(kernel::weak_float_type, kernel::strong(DType::float32)),
              kernel::strong(DType::float32));
    EXPECT_EQ(kernel::promote(kernel::weak_float_type, kernel::strong(DType::int8)),
              kernel::strong(DType::float64));
}

TEST(Promote, a_loop_index_is_int64_among_integers_and_gives_way_to_a_float) {
    EXPECT_EQ(kernel::promote(kernel::index_type, kernel::strong(DType::int32)),
              kernel::strong(DType::int64));
    EXPECT_EQ(kernel::promote(kernel::index_type, kernel::strong(DType::float32)),
              kernel::strong(DType::float32));
}

TEST(Analysis, a_local_has_the_type_of_all_that_is_assigned_to_it) {  // taichi-dev/taichi#4678
    InLoop k;
    const Local s = k.b.local("s");
    k.b.assign(s, k.b.literal(std::int64_t{1}));
    k.b.assign(s, k.b.literal(1.5));
    k.store(k.b.use(s));
    const auto spec = k.specialize(DType::float32, DType::float32);
    EXPECT_EQ(spec.instances[0].locals[static_cast<std::size_t>(s)], kernel::weak_float_type);
}

TEST(Builder, values_that_a_function_returns_together_are_unpacked) {
    InLoop k;
    const std::string parameters[] = {"v"};
    const ir::Function pair = k.b.begin_function("pair", parameters);
    const Value both[] = {k.b.use(Parameter{0}), k.b.literal(std::int64_t{1})};
    k.b.return_values(both);
    k.b.end_function();
    const Local targets[] = {k.b.local("p"), k.b.local("q")};
    const Value argument = k.at(k.x);
    k.b.unpack(targets, k.b.call(pair, {&argument, 1}));
    k.store(k.b.binary(ir::Binary::add, k.b.use(targets[0]), k.b.use(targets[1])));
    k.b.end();
    const std::string text = ir::to_string(*k.b.finish());
    EXPECT_NE(text.find("p, q = pair(x[i])"), std::string::npos) << text;
    EXPECT_NE(text.find("return v, 1"), std::string::npos) << text;
}

TEST(Analysis, a_common_value_has_the_promotion_of_all_and_they_are_only_typed) {
    InLoop k;
    const Value values[] = {k.at(k.x), k.b.literal(2.5)};
    const Value common = k.b.common(values);
    k.store(common);
    const kernel::Specialization spec = k.specialize(DType::int32, DType::float64);
    EXPECT_EQ(spec.instances[0].exprs[static_cast<std::size_t>(common)].dtype, DType::float64);
}

TEST(Analysis, a_literal_that_the_other_s_dtype_cannot_hold_is_an_error_that_names_both) {
    InLoop k;
    k.store(k.b.binary(ir::Binary::add, k.at(k.x), k.b.literal(std::int64_t{300})));
    const std::string message = message_of([&] { k.specialize(DType::uint8, DType::uint8); });
    EXPECT_NE(message.find("300 is not a value of uint8"), std::string::npos) << message;
}

TEST(Analysis, an_array_used_as_a_number_is_an_error_that_shows_how_to_index_it) {
    InLoop k;
    k.store(k.b.use(k.x));
    const std::string message = message_of([&] { k.specialize(DType::float32, DType::float32); });
    EXPECT_NE(message.find("x[i]"), std::string::npos) << message;
    EXPECT_NE(message.find("file.py:12:9"), std::string::npos) << message;
}

TEST(Analysis, an_index_of_the_wrong_length_is_refused) {
    InLoop k;
    const Value indices[] = {k.b.use(k.i), k.b.use(k.i)};
    k.store(k.b.load(k.x, indices));
    const std::string message = message_of([&] { k.specialize(DType::float32, DType::float32); });
    EXPECT_NE(message.find("'x' has 1 dimension, but is indexed with 2"), std::string::npos)
        << message;
}

TEST(Analysis, a_variable_read_where_it_may_be_unset_is_refused) {  // triton-lang/triton#10950
    InLoop k;
    const Local s = k.b.local("s");
    k.b.if_begin(k.at(k.x));
    k.b.assign(s, k.b.literal(1.0));
    k.b.end();
    k.store(k.b.use(s));
    const std::string message = message_of([&] { k.specialize(DType::float32, DType::float32); });
    EXPECT_NE(message.find("'s' may be read before it is assigned"), std::string::npos) << message;
}

TEST(Analysis, a_variable_set_before_the_only_break_of_an_endless_loop_is_set_after_it) {
    InLoop k;
    const Local s = k.b.local("s");
    k.b.while_loop(k.b.literal(true));
    k.b.assign(s, k.at(k.x));
    k.b.break_loop();
    k.b.end();
    k.store(k.b.use(s));
    EXPECT_NO_THROW(k.specialize(DType::float32, DType::float32));
}

TEST(Analysis, a_variable_set_in_every_pass_of_a_loop_with_passes_is_set_after_it) {
    for (const std::int64_t stop : {0, 3}) {
        InLoop k;
        const Local s = k.b.local("s");
        const Local pass = k.b.local("pass");
        k.b.for_range(
            pass, {k.b.literal(std::int64_t{0}), k.b.literal(stop), k.b.literal(std::int64_t{1})});
        k.b.assign(s, k.at(k.x));
        k.b.end();
        k.store(k.b.use(s));
        if (stop == 0) {
            EXPECT_THROW(k.specialize(DType::float32, DType::float32), Error);
        } else {
            EXPECT_NO_THROW(k.specialize(DType::float32, DType::float32));
        }
    }
}

TEST(Analysis, assigning_to_an_outside_variable_in_a_parallel_loop_is_refused) {
    Builder b("k");
    const Parameter x = b.parameter("x");
    const Local s = b.local("s");
    const Local i = b.local("i");
    b.assign(s, b.literal(0.0));
    const ir::Range range{b.literal(std::int64_t{0}), b.size(x), b.literal(std::int64_t{1})};
    b.parallel({&i, 1}, {&range, 1});
    b.assign(s, b.literal(1.0));
    b.end();
    auto program = b.finish();
    const std::string message = message_of([&] {
        kernel::specialize(program, {{true, kernel::strong(DType::float32), 1, 0}}, {}, true);
    });
    EXPECT_NE(message.find("atomic_add"), std::string::npos) << message;
}

TEST(Analysis, a_function_that_calls_itself_is_refused_by_name) {  // taichi-dev/taichi#346
    Builder b("k");
    const Parameter x = b.parameter("x");
    const std::string names[] = {"n"};
    const ir::Function f = b.begin_function("fib", names);
    const Value inner = b.use(Parameter{0});
    b.return_value(b.call(f, {&inner, 1}));
    b.end_function();
    const Local i = b.local("i");
    const ir::Range range{b.literal(std::int64_t{0}), b.size(x), b.literal(std::int64_t{1})};
    b.parallel({&i, 1}, {&range, 1});
    const Value argument = b.use(i);
    b.evaluate(b.call(f, {&argument, 1}));
    b.end();
    auto program = b.finish();
    const std::string message = message_of([&] {
        kernel::specialize(program, {{true, kernel::strong(DType::float32), 1, 0}}, {}, true);
    });
    EXPECT_NE(message.find("'fib' calls itself"), std::string::npos) << message;
}

TEST(Analysis, reads_and_writes_of_each_array_are_told_apart) {
    InLoop k;
    k.store(k.at(k.x));
    const auto spec = k.specialize(DType::float32, DType::float32);
    EXPECT_TRUE(spec.access[0].loads);
    EXPECT_FALSE(spec.access[0].stores);
    EXPECT_FALSE(spec.access[1].loads);
    EXPECT_TRUE(spec.access[1].stores);
}

}  // namespace
