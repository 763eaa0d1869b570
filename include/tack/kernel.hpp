/// Kernels written in C++: a function over stand-ins for the arguments is run once, and what it
/// does to them becomes the kernel.
///
///     tack::Kernel saxpy("saxpy", [](tack::Scalar<float> a, tack::In<float> x,
///                                    tack::InOut<float> y) {
///         tack::parallel(x.size(), [&](tack::Index i) { y[i] = a * x[i] + y[i]; });
///     });
///     saxpy(2.0f, x, y);
///
/// Numbers in it are weak, as in docs/kernels.md: 2.0 * x[i] has x's dtype. C++'s own `if`, loops
/// and && act while the kernel is built; if_, for_, while_ and select act in the kernel. A C++
/// function that is called meanwhile is a device function: what it does becomes part of the kernel.
#pragma once

#include <array>
#include <functional>
#include <initializer_list>
#include <memory>
#include <source_location>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tack/array.hpp"
#include "tack/config.hpp"
#include "tack/ir.hpp"
#include "tack/launch.hpp"

namespace tack {

namespace detail {
/// The builder of the kernel that is being traced on this thread. Throws runtime outside of one.
TACK_API ir::Builder& tracer(const char* what);
/// Keeps a value in a variable, so that it is computed here and once.
TACK_API ir::Local keep(ir::Value value);
}  // namespace detail

/// A value in a kernel.
class TACK_API Expr {
public:
    Expr(bool value);
    Expr(int value) : Expr(static_cast<std::int64_t>(value)) {}
    Expr(std::int64_t value);
    Expr(float value) : Expr(static_cast<double>(value)) {}
    Expr(double value);
    explicit Expr(ir::Value computed) : Expr(detail::keep(computed)) {}
    /// A variable that is not assigned again.
    explicit Expr(ir::Local kept) : kind_(Kind::kept), local_(kept) {}

    /// For the functions below: a node of the program to use once.
    ir::Value value() const;

private:
    enum class Kind : std::uint8_t { truth, integer, number, kept };
    Kind kind_;
    union {
        std::int64_t integer_;
        double number_;
        ir::Local local_;
    };
};
using Index = Expr;

/// A number of the launch, of dtype T.
template <class T>
class Scalar {
public:
    static constexpr DType dtype = dtype_of<T>;
    explicit Scalar(ir::Parameter parameter) : parameter_(parameter) {}
    operator Expr() const { return Expr(detail::tracer("Scalar").use(parameter_)); }

private:
    ir::Parameter parameter_;
};

/// A variable of the kernel, of dtype T.
template <class T>
class Var {
public:
    Var(const Expr& initial) : local_(detail::tracer("Var").local("var")) { *this = initial; }
    template <class V>
        requires(std::is_convertible_v<const V&, Expr> && !std::is_same_v<V, Var>)
    Var(const V& initial) : Var(static_cast<Expr>(initial)) {}
    Var(const Var& other) : Var(static_cast<Expr>(other)) {}

    Var& operator=(const Expr& value) {
        ir::Builder& b = detail::tracer("Var");
        b.assign(local_, b.cast(dtype_of<T>, value.value()));
        return *this;
    }
    template <class V>
        requires(std::is_convertible_v<const V&, Expr> && !std::is_same_v<V, Var>)
    Var& operator=(const V& value) {
        return *this = static_cast<Expr>(value);
    }
    Var& operator=(const Var& other) { return *this = static_cast<Expr>(other); }
    operator Expr() const { return Expr(detail::tracer("Var").use(local_)); }

private:
    ir::Local local_;
};

/// An array of the launch, of dtype T: what In, Out and InOut share.
template <class T>
class ArrayParameter {
public:
    static constexpr DType dtype = dtype_of<T>;
    explicit ArrayParameter(ir::Parameter parameter) : parameter_(parameter) {}
    Expr size() const { return Expr(detail::tracer("size").size(parameter_)); }
    Expr ndim() const { return Expr(detail::tracer("ndim").ndim(parameter_)); }
    Expr shape(int axis) const { return Expr(detail::tracer("shape").extent(parameter_, axis)); }
    ir::Parameter parameter() const { return parameter_; }

protected:
    template <class... I>
    Expr load(const I&... indices) const {
        const std::array<ir::Value, sizeof...(I)> values{static_cast<Expr>(indices).value()...};
        return Expr(detail::tracer("load").load(parameter_, values));
    }

private:
    ir::Parameter parameter_;
};

/// An array that the kernel reads: x[i], z(i, j).
template <class T>
class In : public ArrayParameter<T> {
public:
    using ArrayParameter<T>::ArrayParameter;
    Expr operator[](const Expr& index) const { return this->load(index); }
    template <class... I>
    Expr operator()(const I&... indices) const {
        return this->load(indices...);
    }
};

/// One element of an array that the kernel writes: assign to it, or use its value.
template <std::size_t Rank>
class Element {
public:
    Element(ir::Parameter array, std::array<Expr, Rank> indices)
        : array_(array), indices_(std::move(indices)) {}
    Element(const Element&) = default;

    const Element& operator=(const Expr& value) const {
        const std::array<ir::Value, Rank> at = values();
        detail::tracer("store").store(array_, at, value.value());
        return *this;
    }
    const Element& operator=(const Element& other) const {
        return *this = static_cast<Expr>(other);
    }
    operator Expr() const { return Expr(detail::tracer("load").load(array_, values())); }

    ir::Value atomic(ir::Atomic op, const Expr& value) const {
        return detail::tracer("atomic").atomic(op, array_, values(), value.value());
    }

private:
    std::array<ir::Value, Rank> values() const {
        std::array<ir::Value, Rank> out{};
        for (std::size_t k = 0; k < Rank; ++k) out[k] = indices_[k].value();
        return out;
    }

    ir::Parameter array_;
    std::array<Expr, Rank> indices_;
};

/// An array that the kernel reads and writes: y[i] = ..., z(i, j) += ...
template <class T>
class InOut : public ArrayParameter<T> {
public:
    using ArrayParameter<T>::ArrayParameter;
    Element<1> operator[](const Expr& index) const { return {this->parameter(), {index}}; }
    template <class... I>
    Element<sizeof...(I)> operator()(const I&... indices) const {
        return {this->parameter(), {static_cast<Expr>(indices)...}};
    }
};
/// An array that the kernel writes; the same as InOut, said more plainly.
template <class T>
class Out : public InOut<T> {
public:
    using InOut<T>::InOut;
};

// operators, as in docs/kernels.md: / is true division, % has the divisor's sign

#define TACK_BINARY(symbol, op)                                                \
    inline Expr operator symbol(const Expr& a, const Expr& b) {                \
        return Expr(detail::tracer(#symbol).binary(op, a.value(), b.value())); \
    }                                                                          \
    template <class T>                                                         \
    Var<T>& operator symbol## = (Var<T> & target, const Expr& b) {             \
        return target = static_cast<Expr>(target) symbol b;                    \
    }                                                                          \
    template <std::size_t Rank>                                                \
    void operator symbol## = (const Element<Rank>& target, const Expr& b) {    \
        target = static_cast<Expr>(target) symbol b;                           \
    }
TACK_BINARY(+, ir::Binary::add)
TACK_BINARY(-, ir::Binary::subtract)
TACK_BINARY(*, ir::Binary::multiply)
TACK_BINARY(/, ir::Binary::divide)
TACK_BINARY(%, ir::Binary::remainder)
TACK_BINARY(&, ir::Binary::bit_and)
TACK_BINARY(|, ir::Binary::bit_or)
TACK_BINARY(^, ir::Binary::bit_xor)
TACK_BINARY(<<, ir::Binary::shift_left)
TACK_BINARY(>>, ir::Binary::shift_right)
#undef TACK_BINARY

#define TACK_COMPARE(symbol, op)                                                \
    inline Expr operator symbol(const Expr& a, const Expr& b) {                 \
        return Expr(detail::tracer(#symbol).compare(op, a.value(), b.value())); \
    }
TACK_COMPARE(==, ir::Compare::equal)
TACK_COMPARE(!=, ir::Compare::not_equal)
TACK_COMPARE(<, ir::Compare::less)
TACK_COMPARE(<=, ir::Compare::less_equal)
TACK_COMPARE(>, ir::Compare::greater)
TACK_COMPARE(>=, ir::Compare::greater_equal)
#undef TACK_COMPARE

#define TACK_UNARY(name, op) \
    inline Expr name(const Expr& a) { return Expr(detail::tracer(#name).unary(op, a.value())); }
TACK_UNARY(operator-, ir::Unary::negative)
TACK_UNARY(operator~, ir::Unary::invert)
TACK_UNARY(operator!, ir::Unary::logical_not)
TACK_UNARY(abs, ir::Unary::absolute)
/// To the nearest integer, half to even, in the operand's dtype.
TACK_UNARY(round, ir::Unary::round)
#undef TACK_UNARY

/// Both sides may be evaluated; guard an access with if_ instead.
inline Expr operator&&(const Expr& a, const Expr& b) {
    return Expr(detail::tracer("&&").logical_and(a.value(), b.value()));
}
inline Expr operator||(const Expr& a, const Expr& b) {
    return Expr(detail::tracer("||").logical_or(a.value(), b.value()));
}
/// Python's //: rounds towards minus infinity.
inline Expr floor_divide(const Expr& a, const Expr& b) {
    return Expr(
        detail::tracer("floor_divide").binary(ir::Binary::floor_divide, a.value(), b.value()));
}
inline Expr pow(const Expr& a, const Expr& b) {
    return Expr(detail::tracer("pow").binary(ir::Binary::power, a.value(), b.value()));
}
/// NaN wins, as in NumPy's minimum and maximum.
inline Expr min(const Expr& a, const Expr& b) {
    return Expr(detail::tracer("min").binary(ir::Binary::minimum, a.value(), b.value()));
}
inline Expr max(const Expr& a, const Expr& b) {
    return Expr(detail::tracer("max").binary(ir::Binary::maximum, a.value(), b.value()));
}
/// Both values are evaluated, one is taken.
inline Expr select(const Expr& condition, const Expr& then, const Expr& otherwise) {
    return Expr(
        detail::tracer("select").select(condition.value(), then.value(), otherwise.value()));
}
/// Saturates from floating-point to integer; NaN gives 0.
template <class T>
Expr cast(const Expr& a) {
    return Expr(detail::tracer("cast").cast(dtype_of<T>, a.value()));
}
/// A function of Python's math module: math(ir::Math::atan2, y, x).
template <class... A>
Expr math(ir::Math function, const A&... operands) {
    const std::array<ir::Value, sizeof...(A)> values{static_cast<Expr>(operands).value()...};
    return Expr(detail::tracer("math").math(function, values));
}
inline Expr sqrt(const Expr& a) { return math(ir::Math::sqrt, a); }
inline Expr exp(const Expr& a) { return math(ir::Math::exp, a); }
inline Expr log(const Expr& a) { return math(ir::Math::log, a); }
inline Expr sin(const Expr& a) { return math(ir::Math::sin, a); }
inline Expr cos(const Expr& a) { return math(ir::Math::cos, a); }
inline Expr floor(const Expr& a) { return math(ir::Math::floor, a); }

/// Adds to one element, whichever iterations do so at once; gives the value before.
/// int32, uint32, int64, uint64, float32 and float64 only.
template <std::size_t Rank>
Expr atomic_add(const Element<Rank>& element, const Expr& value) {
    return Expr(element.atomic(ir::Atomic::add, value));
}
template <std::size_t Rank>
Expr atomic_min(const Element<Rank>& element, const Expr& value) {
    return Expr(element.atomic(ir::Atomic::minimum, value));
}
template <std::size_t Rank>
Expr atomic_max(const Element<Rank>& element, const Expr& value) {
    return Expr(element.atomic(ir::Atomic::maximum, value));
}

/// A number in [0, 1), float or double, that depends on the seed and the indices (integers, one or
/// more) alone. Philox4x32-10: the seed is the key and two indices the counter of a block, low
/// words first; a missing second one is 0. Of more, each further pair is the counter of a block
/// whose key is the first 64 bits of the one before.
template <class T = float, class... I>
Expr random(const Expr& seed, const Expr& index, const I&... more) {
    const std::array<ir::Value, 2 + sizeof...(I)> values{seed.value(), index.value(),
                                                         static_cast<Expr>(more).value()...};
    return Expr(detail::tracer("random").random(dtype_of<T>, values));
}

// loops and branches

/// start, start + step, ... before stop. From one number: 0 to it.
struct Range {
    Expr start, stop, step;

    template <class V>
        requires std::is_convertible_v<const V&, Expr>
    Range(const V& stop_) : start(0), stop(static_cast<Expr>(stop_)), step(1) {}
    Range(const Expr& start_, const Expr& stop_, const Expr& step_ = 1)
        : start(start_), stop(stop_), step(step_) {}
};

namespace detail {
TACK_API void begin_parallel(std::initializer_list<Range> ranges, ir::Local* variables);
TACK_API ir::Local begin_for(const Range& range);
}  // namespace detail

/// parallel(n, [&](Index i) {...}), parallel(n, m, [&](Index i, Index j) {...}); each axis a number
/// or a Range. Iterations are unordered. Only at the kernel's top level.
template <class F>
void parallel(const Range& range, F&& body) {
    std::array<ir::Local, 1> v{};
    detail::begin_parallel({range}, v.data());
    body(Index(v[0]));
    detail::tracer("parallel").end();
}
template <class F>
void parallel(const Range& outer, const Range& inner, F&& body) {
    std::array<ir::Local, 2> v{};
    detail::begin_parallel({outer, inner}, v.data());
    body(Index(v[0]), Index(v[1]));
    detail::tracer("parallel").end();
}
template <class F>
void parallel(const Range& outer, const Range& middle, const Range& inner, F&& body) {
    std::array<ir::Local, 3> v{};
    detail::begin_parallel({outer, middle, inner}, v.data());
    body(Index(v[0]), Index(v[1]), Index(v[2]));
    detail::tracer("parallel").end();
}
/// A serial loop inside an iteration.
template <class F>
void for_(const Range& range, F&& body) {
    const ir::Local variable = detail::begin_for(range);
    body(Index(variable));
    detail::tracer("for_").end();
}
/// Nested serial loops, the first range outermost.
template <class F>
void for_(const Range& outer, const Range& inner, F&& body) {
    for_(outer, [&](Index i) { for_(inner, [&](Index j) { body(i, j); }); });
}
template <class F>
void for_(const Range& outer, const Range& middle, const Range& inner, F&& body) {
    for_(outer, middle, [&](Index i, Index j) { for_(inner, [&](Index k) { body(i, j, k); }); });
}
/// while_([&] { return x < 4; }, [&] { ... }): the condition is evaluated before each pass.
template <class C, class F>
void while_(C&& condition, F&& body) {
    ir::Builder& b = detail::tracer("while_");
    b.while_loop(b.literal(true));
    const Expr go_on = condition();
    b.if_begin(b.unary(ir::Unary::logical_not, go_on.value()));
    b.break_loop();
    b.end();
    body();
    b.end();
}
template <class F>
void if_(const Expr& condition, F&& then) {
    ir::Builder& b = detail::tracer("if_");
    b.if_begin(condition.value());
    then();
    b.end();
}
template <class F, class G>
void if_(const Expr& condition, F&& then, G&& otherwise) {
    ir::Builder& b = detail::tracer("if_");
    b.if_begin(condition.value());
    then();
    b.if_else();
    otherwise();
    b.end();
}
inline void break_() { detail::tracer("break_").break_loop(); }
/// Ends this pass of the innermost loop, or this iteration of a parallel one.
inline void continue_() { detail::tracer("continue_").continue_loop(); }

namespace detail {

template <class T>
struct IsScalar : std::false_type {};
template <class T>
struct IsScalar<Scalar<T>> : std::true_type {};

template <class P>
P add_parameter(ir::Builder& b, const std::string& name) {
    if constexpr (IsScalar<P>::value) {
        return P(b.scalar_parameter(name, P::dtype));
    } else {
        return P(b.array_parameter(name, P::dtype));
    }
}

/// Calls `body` with a stand-in for each of its parameters, declared in their order.
template <class F, class R, class... P>
void trace(ir::Builder& b, const F& body, R (F::*)(P...) const) {
    [&]<std::size_t... k>(std::index_sequence<k...>) {
        std::tuple<std::remove_cvref_t<P>...> parameters{
            add_parameter<std::remove_cvref_t<P>>(b, "arg" + std::to_string(k))...};
        body(std::get<k>(parameters)...);
    }(std::index_sequence_for<P...>());
}

inline kernel::Argument to_argument(const Array& array) { return kernel::Argument(array); }
template <class T>
    requires std::is_arithmetic_v<T>
kernel::Argument to_argument(T value) {
    return kernel::Argument::scalar(dtype_of<T>, &value);
}

}  // namespace detail

/// A kernel of a name and a function with typed parameters. The function is run at the first
/// launch, compiled for each kind of arguments once; any thread may launch.
class TACK_API Kernel {
public:
    template <class F>
    Kernel(std::string name, F body, kernel::Options options = {},
           std::source_location where = std::source_location::current())
        : Kernel(
              std::move(name),
              [body = std::move(body)](ir::Builder& b) { detail::trace(b, body, &F::operator()); },
              options, where, Traced{}) {}
    Kernel(Kernel&&) noexcept;
    Kernel& operator=(Kernel&&) noexcept;
    ~Kernel();

    /// Launches on the arguments, arrays and numbers, in the function's order. Runs on (CPU) or is
    /// queued to the arrays' device. Errors: see kernel::Dispatcher::launch.
    template <class... A>
    void operator()(const A&... arguments) const {
        const std::array<kernel::Argument, sizeof...(A)> list{detail::to_argument(arguments)...};
        dispatcher().launch(list);
    }
    template <class... A>
    std::string inspect(kernel::Inspect what, const A&... arguments) const {
        const std::array<kernel::Argument, sizeof...(A)> list{detail::to_argument(arguments)...};
        return dispatcher().inspect(list, what);
    }

private:
    struct Traced {};
    Kernel(std::string name, std::function<void(ir::Builder&)> body, kernel::Options options,
           std::source_location where, Traced);
    kernel::Dispatcher& dispatcher() const;

    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace tack
