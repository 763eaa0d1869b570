/// Launching programs: argument values in, compiled code chosen, work run or queued.
/// Most users want kernel.hpp instead.
#pragma once

#include <bit>
#include <memory>
#include <span>
#include <string>

#include "tack/array.hpp"
#include "tack/ir.hpp"

namespace tack::kernel {

/// C-contiguous host memory that a launch borrows, in place of an Array over it.
struct HostView {
    void* address;                // aligned for dtype
    const std::int64_t* extents;  // ndim of them
    std::int64_t nbytes;
    int ndim;
    DType dtype;
    bool writable;
};

/// One argument of a launch. Weak numbers take the dtype of what they meet, as NumPy 2's
/// promotion does with Python's numbers.
struct Argument {
    enum class Kind : std::uint8_t { array, weak_integer, weak_float, scalar, host_view };

    Kind kind;
    DType dtype = DType::bool_;  // of a scalar
    union {
        ArrayState* array;     // alive until launch() returns
        const HostView* view;  // likewise
        std::uint64_t bits;    // the scalar's bytes, low ones first
    };

    Argument() = default;
    explicit Argument(const Array& a) : kind(Kind::array), array(a.state()) {}
    explicit Argument(const HostView& v) : kind(Kind::host_view), view(&v) {}
    static Argument weak(std::int64_t value) {
        return {Kind::weak_integer, DType::int64, static_cast<std::uint64_t>(value)};
    }
    static Argument weak(std::uint64_t value) { return {Kind::weak_integer, DType::uint64, value}; }
    static Argument weak(double value) {
        return {Kind::weak_float, DType::float64, std::bit_cast<std::uint64_t>(value)};
    }
    static Argument scalar(DType dtype, const void* value) {
        Argument argument{Kind::scalar, dtype, 0};
        std::memcpy(&argument.bits, value, static_cast<std::size_t>(itemsize(dtype)));
        return argument;
    }

    bool is_array() const noexcept { return kind == Kind::array || kind == Kind::host_view; }

private:
    Argument(Kind k, DType d, std::uint64_t b) : kind(k), dtype(d), bits(b) {}
};

struct Options {
    bool fast_math = false;     // floating-point operations may be reordered and contracted
    bool check_bounds = false;  // an index out of range is Error of kind index, see launch()
};

enum class Inspect { ir, source, assembly };

/// A program with its compiled specializations. Any thread may launch.
class TACK_API Dispatcher {
public:
    explicit Dispatcher(std::shared_ptr<const ir::Program> program, Options options = {});
    Dispatcher(Dispatcher&&) noexcept;
    Dispatcher& operator=(Dispatcher&&) noexcept;
    ~Dispatcher();

    /// Runs (CPU) or queues the kernel on its arrays' device, on the default device without any.
    /// gil_held: the caller holds Python's GIL, which is let go for long work.
    /// Throws before anything has run. value: a read-only array where the kernel may store, arrays
    /// of two memory domains, a loop's step of 0. type: a count or kind of arguments that does not
    /// fit. compile: a program that cannot be typed with these arguments. With check_bounds, throws
    /// index after the launch has completed, naming the first array, index and extent found out of
    /// range. Such elements were read as 0 and not stored.
    void launch(std::span<const Argument> arguments, bool gil_held = false);
    /// What launch() would use for these arguments.
    std::string inspect(std::span<const Argument> arguments, Inspect what);
    const ir::Program& program() const noexcept;

private:
    struct State;
    std::unique_ptr<State> state_;
};

/// How a front end lets go of its interpreter's lock around long work. Null until set.
struct GilHooks {
    void* (*release)() = nullptr;
    void (*acquire)(void* token) = nullptr;
    bool (*held)() = nullptr;  // by the calling thread
};
TACK_API void set_gil_hooks(GilHooks hooks) noexcept;

}  // namespace tack::kernel
