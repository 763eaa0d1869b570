/// From typed programs to source of the C family.
#pragma once

#include <set>
#include <string>

#include "codegen/helpers.hpp"
#include "kernel/specialization.hpp"

namespace tack::codegen {

/// Writes one instance's statements and expressions. What frames them - how the kernel is entered
/// and its parallel loops are run - is the dialect's.
class Emitter {
public:
    Emitter(const kernel::Specialization& spec, const kernel::Instance& instance, Helpers& helpers);

    /// The statements, indented by `depth` levels.
    std::string statements(std::span<const ir::Stmt> block, int depth);
    /// An expression of the given type.
    std::string as(ir::Value value, DType dtype);
    /// The address of an array's element.
    std::string address(std::int32_t array, const ir::Value* indices) {
        return "&" + element(array, indices);
    }
    std::string as_index(ir::Value value) { return as(value, DType::int64); }
    /// The function of a device function's instance: declaration, then body.
    std::string signature(std::int32_t instance) const;
    std::string function(std::int32_t instance);
    /// The struct of what the function returns together; empty for one value or none.
    std::string result_struct(std::int32_t instance) const;

    /// What the name of the kernel's own entries ends with.
    std::string entry_suffix() const;
    std::string local_name(std::int32_t local) const;
    /// "f32 v0_x = 0".
    std::string declared(std::int32_t local) const;
    std::string parameter_name(std::int32_t parameter) const;
    std::string extent_name(std::int32_t parameter, int axis) const;
    /// "f32 *" for an array's pointer; `restrict` where nothing that is stored to overlaps.
    std::string pointer_type(const kernel::ParameterType& parameter) const;

    /// What the code written so far uses, for the dialect to declare.
    struct Uses {
        std::set<std::int32_t> locals;
        std::set<std::int32_t> parameters;  // arrays' addresses and scalars' values
        std::set<std::pair<std::int32_t, int>> extents;
        std::set<std::int32_t> callees;
    };
    Uses uses;
    /// Estimated nanoseconds of one pass over the code written so far; loops whose passes are not
    /// known count as `unknown_passes`.
    double cost = 0;
    static constexpr double unknown_passes = 100;

    // See variants.hpp; set before the code is written.
    std::int32_t streamed = -1;     // its stores go to staged[lane]
    std::int32_t accumulated = -1;  // its atomics add to one thread's own copy

private:
    void statement(const ir::Stmt& s, int depth);
    void line(int depth, const std::string& text);
    void range_loop(const ir::Stmt& s, int depth);
    std::string expr(ir::Value value);
    std::string literal(const ir::Expr& e, DType dtype) const;
    std::string binary(const ir::Expr& e, DType result);
    std::string power(const ir::Expr& e, DType result);
    std::string unary(const ir::Expr& e, DType result);
    std::string compare(const ir::Expr& e);
    std::string math(const ir::Expr& e, DType result);
    std::string call(ir::Value value, const ir::Expr& e);
    std::string element(std::int32_t array, const ir::Value* indices);
    bool checks(std::int32_t array) const;
    std::string checked(const std::string& helper, std::int32_t array, const ir::Value* indices,
                        const std::string& value);
    /// An operation on operands of a dtype, or of bool; integers wrap.
    std::string arithmetic(const std::string& a, const char* symbol, const std::string& b,
                           DType dtype) const;
    std::string random(const ir::Expr& e);
    std::string convert(std::string text, DType from, DType to);
    /// An operand of an operation of `dtype`: rounded to that, in the dtype it is computed in.
    std::string operand(ir::Value value, DType dtype);
    std::string truth(ir::Value value);

    DType dtype_of(ir::Value v) const { return instance_.exprs[static_cast<std::size_t>(v)].dtype; }

    const kernel::Specialization& spec_;
    const kernel::Instance& instance_;
    const ir::Routine& routine_;
    Helpers& helpers_;
    std::int32_t self_ = 0;  // which instance, once function() writes it
    std::string out_;
};

/// The name of a device function's instance in generated code.
std::string function_name(const kernel::Specialization& spec, std::int32_t instance);

}  // namespace tack::codegen
