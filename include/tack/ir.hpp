/// Building kernels as programs: what the Python and the C++ front end both call.
/// Most users want kernel.hpp instead.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tack/config.hpp"
#include "tack/dtype.hpp"

namespace tack::ir {

struct Program;

enum class Unary : std::uint8_t { negative, positive, invert, logical_not, absolute, round };

/// Python's operators and NumPy's functions of these names.
enum class Binary : std::uint8_t {
    add,
    subtract,
    multiply,
    divide,
    floor_divide,
    remainder,
    power,
    bit_and,
    bit_or,
    bit_xor,
    shift_left,
    shift_right,
    minimum,
    maximum,
};

enum class Compare : std::uint8_t { equal, not_equal, less, less_equal, greater, greater_equal };
enum class Atomic : std::uint8_t { add, minimum, maximum };

/// Functions of Python's math module (those of one or two floating-point values).
// clang-format off
enum class Math : std::uint8_t {
    acos, acosh, asin, asinh, atan, atan2, atanh, cbrt, ceil, copysign, cos, cosh, erf, erfc, exp,
    exp2, expm1, floor, fmod, gamma, hypot, isfinite, isinf, isnan, lgamma, log, log10, log1p, log2,
    sin, sinh, sqrt, tan, tanh, trunc,
};
// clang-format on
/// The name in Python's math module.
TACK_API std::string_view name(Math function);
inline constexpr int math_count = static_cast<int>(Math::trunc) + 1;

// Handles into the program being built. A Value is an expression that is evaluated where the
// statement that uses it runs; each may be used once only.
enum class Value : std::int32_t {};
enum class Local : std::int32_t {};
enum class Parameter : std::int32_t {};
enum class Function : std::int32_t {};

struct Range {
    Value start;
    Value stop;
    Value step;
};

/// Builds one program, statement by statement. What belongs into a loop or branch comes between
/// the call that opens it and its end().
/// Nothing is typed here: dtypes are settled per launch by the arguments. Every call that finds a
/// mistake throws compile, with the location set by at().
class TACK_API Builder {
public:
    explicit Builder(std::string name);
    Builder(Builder&&) noexcept;
    Builder& operator=(Builder&&) noexcept;
    ~Builder();

    // where the user's text is, for messages
    /// file: as Python names it. line: of the text's first line, from 1. text: may be empty.
    /// Belongs to the kernel, or to the function being built.
    void source(std::string file, int line, std::string text);
    /// The location of what is built next. line: as in the file; column: from 1, 0 for unknown.
    void at(int line, int column);
    [[noreturn]] void fail(const std::string& message) const;

    // parameters
    Parameter parameter(std::string name);  // array or scalar, as the argument is
    Parameter array_parameter(std::string name, DType dtype);
    Parameter scalar_parameter(std::string name, DType dtype);

    // device functions; parameters are numbered from 0 and typed by use
    Function begin_function(std::string name, std::span<const std::string> parameters);
    void end_function();

    // values
    Value literal(bool value);
    Value literal(std::int64_t value);   // weak
    Value literal(std::uint64_t value);  // weak
    Value literal(double value);         // weak
    Value use(Local local);
    Value use(Parameter parameter);  // a scalar, or an array as a function's argument
    Value load(Parameter array, std::span<const Value> indices);
    /// Weak. Negative axes count from the end. ndim: where given, the array must have as many.
    Value extent(Parameter array, int axis, int ndim = -1);
    Value size(Parameter array);  // weak
    Value ndim(Parameter array);  // weak
    Value unary(Unary op, Value operand);
    Value binary(Binary op, Value left, Value right);
    Value compare(Compare op, Value left, Value right);
    Value logical_and(Value left, Value right);  // Python's, of truth values; short circuit
    Value logical_or(Value left, Value right);
    Value select(Value condition, Value then, Value otherwise);  // evaluates one of the two
    Value cast(DType dtype, Value operand);
    Value math(Math function, std::span<const Value> operands);
    Value call(Function function, std::span<const Value> arguments);
    Value atomic(Atomic op, Parameter array, std::span<const Value> indices, Value value);
    /// The first value in the type that all of them have together; the others are not evaluated.
    Value common(std::span<const Value> values);
    /// Philox4x32-10 of a seed and one index or more: float32 or float64 in [0, 1).
    Value random(DType dtype, std::span<const Value> seed_and_indices);

    // statements
    Local local(std::string name);  // a new variable, without a type until it is assigned
    void assign(Local target, Value value);
    /// Evaluates a value here, into a variable that has its type and is not assigned again. Where
    /// it is used once, by the statement that follows, the value stands there in the program.
    Local temporary(Value value);
    void store(Parameter array, std::span<const Value> indices, Value value);
    void evaluate(Value value);  // for its effect
    /// One range per axis, outermost first; iterations are unordered. Top level only.
    void parallel(std::span<const Local> variables, std::span<const Range> ranges);
    void for_range(Local variable, Range range);
    void while_loop(Value condition);
    void if_begin(Value condition);
    void if_else();
    void end();
    void break_loop();
    void continue_loop();
    void return_value(Value value);
    void return_values(std::span<const Value> values);
    /// Assigns the values that a call() returns together.
    void unpack(std::span<const Local> targets, Value call);
    void return_nothing();

    /// The finished program. The builder is empty afterwards.
    std::shared_ptr<const Program> finish();

private:
    struct State;
    std::unique_ptr<State> state_;
};

/// The program as text, the same for equal programs.
TACK_API std::string to_string(const Program& program);

}  // namespace tack::ir
