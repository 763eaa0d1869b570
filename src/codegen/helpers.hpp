/// The small functions that generated code calls, each emitted only where it is used.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codegen/target.hpp"
#include "tack/dtype.hpp"
#include "tack/ir.hpp"

namespace tack::codegen {

/// The short name of a dtype in generated code: "f32", "i64", "b8".
std::string_view type_name(DType dtype);
/// Zero, of an array's elements.
std::string zero(DType dtype);

class Helpers {
public:
    explicit Helpers(const Target& target) : target_(target) {}

    const Target& target() const { return target_; }
    /// f16, for a target that has none: to be called before any code with float16 is written.
    void half();

    // Each gives the name of a function of the operation on that dtype.
    std::string floor_divide(DType dtype);      // integers: by zero 0; floats: NumPy's
    std::string remainder(DType dtype);         // likewise
    std::string shift(bool left, DType dtype);  // too far or negative: 0 or the sign
    std::string power(DType integer);           // by squaring; a negative exponent 0, but of 1, -1
    std::string square(DType dtype);
    std::string extremum(bool maximum, DType dtype);  // NaN wins
    std::string absolute(DType dtype);
    std::string saturate(DType from, DType to);  // float to integer; NaN is 0
    std::string bfloat16_from(DType from);       // float32 or float64, rounded once
    std::string bfloat16_to_float32();
    std::string compare_mixed(ir::Compare op);         // (int64, uint64), exact
    std::string trips();                               // passes of a range(start, stop, step)
    std::string atomic(ir::Atomic op, DType dtype);    // (pointer, value) gives the old value
    std::string plain_add(DType dtype);                // likewise, for one thread's own cell
    std::string math(ir::Math function, DType dtype);  // float32 or float64
    std::string math_power(DType dtype);               // likewise
    std::string round(DType dtype);                    // likewise; half to even
    std::string magnitude(DType dtype);                // likewise
    std::string philox();             // (key, two counters): the block's first two words
    std::string random(DType dtype);  // from those: float32 or float64 in [0, 1)

    // For check_bounds: (fault, parameter, array, index and extent of each axis, value if any).
    // Out of range they record the fault, and give 0 or store nothing.
    std::string checked_load(DType dtype, int ndim);
    std::string checked_store(DType dtype, int ndim);
    std::string checked_atomic(ir::Atomic op, DType dtype, int ndim);

    /// Type names and all that was asked for, in an order in which each is declared before use.
    std::string text() const;

private:
    const Target::Number& number(DType d) const {
        return d == DType::float32 ? target_.f32 : target_.f64;
    }
    std::string builtin(std::string_view function, DType dtype) const;
    std::string to_bits(DType floating);    // as the unsigned integer of that width
    std::string from_bits(DType floating);  // and back
    std::string to_odd();                   // float64 to float32, by rounding to odd
    std::string classify(ir::Math function, DType dtype);
    std::string compare_exchange(DType dtype);
    std::string add(std::string name, const std::string& source);
    std::string declare(const std::string& function, bool binary, DType dtype);
    std::string checked(const std::string& name, DType dtype, int ndim, const std::string& source);

    const Target target_;
    std::vector<std::string> names_;
    std::string text_;
};

}  // namespace tack::codegen
