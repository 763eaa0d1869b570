#include "codegen/emitter.hpp"

#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace tack::codegen {

using ir::Expr;
using ir::Op;
using ir::Stmt;
using ir::StmtOp;
using ir::Value;
using kernel::Type;
using kernel::Weak;

namespace {

// Nanoseconds of one operation in vectorised code on a current processor; only the order of
// magnitude matters, which decides between one thread and several.
constexpr double memory_cost = 0.02;
constexpr double arithmetic_cost = 0.01;
constexpr double division_cost = 0.2;
constexpr double math_cost = 0.5;
constexpr double function_cost = 4;
constexpr double branch_cost = 0.5;

/// Names are the user's, and may hold any letter of Unicode.
std::string ascii(const std::string& name) {
    std::string out;
    for (const char c : name)
        out += std::isalnum(static_cast<unsigned char>(c)) && static_cast<signed char>(c) > 0 ? c
                                                                                              : '_';
    return out;
}

std::string type_of(DType d) { return std::string(type_name(d)); }

bool is_half(DType d) { return d == DType::float16 || d == DType::bfloat16; }

/// The dtype that operations on `d` are computed in before they are rounded to it.
DType computed(DType d) { return is_half(d) ? DType::float32 : d; }

std::string number_text(const Target& target, double value, DType d) {
    const bool single = d == DType::float32;
    const Target::Number& number = single ? target.f32 : target.f64;
    if (std::isnan(value)) return std::string(number.nan);
    if (std::isinf(value)) return (value < 0 ? "(-" : "(") + std::string(number.infinity) + ")";
    char text[40];
    std::snprintf(text, sizeof text, "%a", single ? static_cast<float>(value) : value);
    std::string out(text);
    if (single) out += "f";
    return value < 0 || out[0] == '-' ? "(" + out + ")" : out;
}

std::string integer_text(std::int64_t value, DType d) {
    if (d == DType::uint64) return std::to_string(static_cast<std::uint64_t>(value)) + "ull";
    if (value == INT64_MIN) return "(-9223372036854775807ll - 1)";
    std::string out = std::to_string(value);
    if (d == DType::int64) out += "ll";
    return value < 0 ? "(" + out + ")" : out;
}

}  // namespace

std::string function_name(const kernel::Specialization& spec, std::int32_t instance) {
    const auto& routine = spec.routine(spec.instances[static_cast<std::size_t>(instance)]);
    return "f" + std::to_string(instance) + "_" + ascii(routine.name);
}

Emitter::Emitter(const kernel::Specialization& spec, const kernel::Instance& instance,
                 Helpers& helpers)
    : spec_(spec), instance_(instance), routine_(spec.routine(instance)), helpers_(helpers) {}

std::string Emitter::entry_suffix() const { return "_" + ascii(routine_.name); }

std::string Emitter::local_name(std::int32_t local) const {
    return "v" + std::to_string(local) + "_" +
           ascii(routine_.locals[static_cast<std::size_t>(local)]);
}

std::string Emitter::parameter_name(std::int32_t parameter) const {
    return "p" + std::to_string(parameter) + "_" +
           ascii(routine_.parameters[static_cast<std::size_t>(parameter)].name);
}

std::string Emitter::declared(std::int32_t local) const {
    const DType d = instance_.locals[static_cast<std::size_t>(local)].dtype;
    return type_of(d) + " " + local_name(local) + " = " + (is_half(d) ? zero(d) : "0");
}

std::string Emitter::extent_name(std::int32_t parameter, int axis) const {
    return parameter_name(parameter) + "_n" + std::to_string(axis);
}

std::string Emitter::pointer_type(const kernel::ParameterType& parameter) const {
    const bool is_const = !spec_.access[static_cast<std::size_t>(parameter.array)].stores;
    const DType d = parameter.type.dtype;
    return std::string(helpers_.target().array_space) + (is_const ? "const " : "") +
           (d == DType::bool_ ? "u8" : type_of(d)) + " *" +
           std::string(spec_.no_alias ? helpers_.target().no_alias : "");
}

std::string Emitter::signature(std::int32_t instance) const {
    const auto& results = instance_.results;
    std::string out = std::string(helpers_.target().routine) + " " +
                      (results.empty()       ? "void"
                       : results.size() == 1 ? type_of(results[0].dtype)
                                             : "struct " + function_name(spec_, instance)) +
                      " " + function_name(spec_, instance) + "(";
    if (spec_.options.check_bounds)
        out += std::string(helpers_.target().array_space) +
               (instance_.parameters.empty() ? "struct fault *fault" : "struct fault *fault, ");
    for (std::size_t k = 0; k < instance_.parameters.size(); ++k) {
        const auto& p = instance_.parameters[k];
        const auto index = static_cast<std::int32_t>(k);
        if (k) out += ", ";
        out += (p.is_array ? pointer_type(p) : type_of(p.type.dtype) + " ") + parameter_name(index);
        for (int axis = 0; axis < p.ndim; ++axis) out += ", i64 " + extent_name(index, axis);
    }
    return out + (instance_.parameters.empty() && !spec_.options.check_bounds ? "void)" : ")");
}

std::string Emitter::result_struct(std::int32_t instance) const {
    if (instance_.results.size() < 2) return {};
    std::string out = "struct " + function_name(spec_, instance) + " {";
    for (std::size_t k = 0; k < instance_.results.size(); ++k)
        out += " " + type_of(instance_.results[k].dtype) + " r" + std::to_string(k) + ";";
    return out + " };\n";
}

std::string Emitter::function(std::int32_t instance) {
    self_ = instance;
    const std::string body = statements(routine_.body, 1);
    std::string out = signature(instance) + " {\n";
    for (const std::int32_t local : uses.locals) out += "    " + declared(local) + ";\n";
    return out + body + "}\n";
}

// statements

std::string Emitter::statements(std::span<const Stmt> block, int depth) {
    const std::string before = std::move(out_);
    out_.clear();
    for (const Stmt& s : block) statement(s, depth);
    std::string written = std::move(out_);
    out_ = before;
    return written;
}

void Emitter::line(int depth, const std::string& text) {
    out_.append(static_cast<std::size_t>(depth) * 4, ' ');
    out_ += text + "\n";
}

void Emitter::statement(const Stmt& s, int depth) {
    switch (s.op) {
        case StmtOp::assign: {
            uses.locals.insert(s.index);
            const DType d = instance_.locals[static_cast<std::size_t>(s.index)].dtype;
            line(depth, local_name(s.index) + " = " + as(s.operands[0], d) + ";");
            break;
        }
        case StmtOp::store: {
            const auto& p = instance_.parameters[static_cast<std::size_t>(s.index)];
            cost += memory_cost;
            const std::string value = as(s.operands.back(), p.type.dtype);
            line(depth, s.index == streamed ? "staged[lane] = " + value + ";"
                        : checks(s.index)
                            ? checked(helpers_.checked_store(p.type.dtype, p.ndim), s.index,
                                      s.operands.data(), value) +
                                  ";"
                            : element(s.index, s.operands.data()) + " = " + value + ";");
            break;
        }
        case StmtOp::evaluate:
            line(depth, "(void)" + expr(s.operands[0]) + ";");
            break;
        case StmtOp::for_range:
            range_loop(s, depth);
            break;
        case StmtOp::while_loop: {
            const double before = cost;
            line(depth, "while (" + truth(s.operands[0]) + ") {");
            out_ += statements(s.body, depth + 1);
            line(depth, "}");
            cost = before + (cost - before + branch_cost) * unknown_passes;
            break;
        }
        case StmtOp::if_else:
            cost += branch_cost;
            line(depth, "if (" + truth(s.operands[0]) + ") {");
            out_ += statements(s.body, depth + 1);
            if (!s.otherwise.empty()) {
                line(depth, "} else {");
                out_ += statements(s.otherwise, depth + 1);
            }
            line(depth, "}");
            break;
        case StmtOp::break_loop:
            line(depth, "break;");
            break;
        case StmtOp::continue_loop:
            line(depth, "continue;");
            break;
        case StmtOp::return_value: {
            const auto value = [&](std::size_t k) {
                return as(s.operands[k], instance_.results[k].dtype) + ";";
            };
            if (s.operands.size() < 2) {
                line(depth, s.operands.empty() ? "return;" : "return " + value(0));
                break;
            }
            line(depth, "{");
            line(depth + 1, "struct " + function_name(spec_, self_) + " r;");
            for (std::size_t k = 0; k < s.operands.size(); ++k)
                line(depth + 1, "r.r" + std::to_string(k) + " = " + value(k));
            line(depth + 1, "return r;");
            line(depth, "}");
            break;
        }
        case StmtOp::unpack: {
            const auto callee = instance_.callees[static_cast<std::size_t>(s.operands[0])];
            const auto& results = spec_.instances[static_cast<std::size_t>(callee)].results;
            const std::string call = expr(s.operands[0]);
            line(depth, "{");
            line(depth + 1, "const struct " + function_name(spec_, callee) + " r = " + call + ";");
            for (std::size_t k = 0; k < s.locals.size(); ++k) {
                const auto local = static_cast<std::int32_t>(s.locals[k]);
                uses.locals.insert(local);
                line(depth + 1,
                     local_name(local) + " = " +
                         convert("r.r" + std::to_string(k), results[k].dtype,
                                 instance_.locals[static_cast<std::size_t>(local)].dtype) +
                         ";");
            }
            line(depth, "}");
            break;
        }
        case StmtOp::parallel:
            break;  // the dialect's
    }
}

void Emitter::range_loop(const Stmt& s, int depth) {
    // Counted by passes taken from the bounds once, as Python does, so that the body may assign
    // the variable and no bound can overflow.
    const std::int32_t variable = static_cast<std::int32_t>(s.locals[0]);
    const std::string counter = local_name(variable) + "_k";
    const ir::Range& r = s.ranges[0];
    const DType d = instance_.locals[static_cast<std::size_t>(variable)].dtype;
    const Expr& step = routine_[r.step];
    uses.locals.insert(variable);
    const double before = cost;
    line(depth, "{");
    if (step.op == Op::literal_int && (step.integer == 1 || step.integer == -1)) {
        const bool up = step.integer == 1;
        line(depth + 1, "const i64 " + counter + "_stop = " + as_index(r.stop) + ";");
        line(depth + 1, "for (i64 " + counter + " = " + as_index(r.start) + "; " + counter +
                            (up ? " < " : " > ") + counter + "_stop; " + (up ? "++" : "--") +
                            counter + ") {");
        line(depth + 2, local_name(variable) + " = " + convert(counter, DType::int64, d) + ";");
    } else {
        line(depth + 1, "const i64 " + counter + "_start = " + as_index(r.start) + ", " + counter +
                            "_step = " + as_index(r.step) + ";");
        line(depth + 1, "const i64 " + counter + "_trips = " + helpers_.trips() + "(" + counter +
                            "_start, " + as_index(r.stop) + ", " + counter + "_step);");
        line(depth + 1, "for (i64 " + counter + " = 0; " + counter + " < " + counter +
                            "_trips; ++" + counter + ") {");
        line(depth + 2,
             local_name(variable) + " = " +
                 convert(arithmetic(counter + "_start", "+",
                                    arithmetic(counter, "*", counter + "_step", DType::int64),
                                    DType::int64),
                         DType::int64, d) +
                 ";");
    }
    out_ += statements(s.body, depth + 2);
    line(depth + 1, "}");
    line(depth, "}");
    const Expr& start = routine_[r.start];
    const Expr& stop = routine_[r.stop];
    double passes = unknown_passes;
    if (start.op == Op::literal_int && stop.op == Op::literal_int && step.op == Op::literal_int)
        passes = std::max(0.0, std::ceil(static_cast<double>(stop.integer - start.integer) /
                                         static_cast<double>(step.integer)));
    cost = before + (cost - before) * passes + arithmetic_cost;
}

// expressions

std::string Emitter::as(Value value, DType dtype) {
    const Expr& e = routine_[value];
    if (e.op == Op::literal_bool || e.op == Op::literal_int || e.op == Op::literal_uint ||
        e.op == Op::literal_float)
        return literal(e, dtype);
    return convert(expr(value), dtype_of(value), dtype);
}

std::string Emitter::literal(const Expr& e, DType dtype) const {
    if (dtype == DType::bool_)
        return (e.op == Op::literal_float ? e.number != 0 : e.integer != 0) ? "(b8)1" : "(b8)0";
    const bool is_unsigned = e.op == Op::literal_uint;
    const double number = e.op == Op::literal_float ? e.number
                          : is_unsigned ? static_cast<double>(static_cast<std::uint64_t>(e.integer))
                                        : static_cast<double>(e.integer);
    switch (dtype) {
        case DType::float64:
        case DType::float32:
            return number_text(helpers_.target(), number, dtype);
        case DType::float16:
            return "(f16)" + number_text(helpers_.target(), number, DType::float64);
        case DType::bfloat16:
            return "(bf16)" + std::to_string(bfloat16(number).bits);
        default:
            break;
    }
    if (e.op != Op::literal_float) {
        const std::string text = integer_text(e.integer, is_unsigned ? DType::uint64 : dtype);
        return itemsize(dtype) < 4 || is_unsigned ? "(" + type_of(dtype) + ")" + text : text;
    }
    // A float literal converted to an integer saturates, as every conversion does.
    double low = 0;
    double high = std::ldexp(1.0, static_cast<int>(itemsize(dtype)) * 8);
    if (is_signed_integer(dtype)) {
        high /= 2;
        low = -high;
    }
    if (std::isnan(number)) return "(" + type_of(dtype) + ")0";
    if (number <= low)
        return "(" + type_of(dtype) + ")" +
               integer_text(is_signed_integer(dtype) ? static_cast<std::int64_t>(low) : 0,
                            DType::int64);
    const std::uint64_t bits =
        number >= high ? ~std::uint64_t{0} >> (64 - static_cast<int>(itemsize(dtype)) * 8 +
                                               (is_signed_integer(dtype) ? 1 : 0))
        : number < 0   ? static_cast<std::uint64_t>(static_cast<std::int64_t>(number))
                       : static_cast<std::uint64_t>(number);
    return "(" + type_of(dtype) + ")" +
           integer_text(static_cast<std::int64_t>(bits),
                        dtype == DType::uint64 ? dtype : DType::int64);
}

std::string Emitter::convert(std::string text, DType from, DType to) {
    if (from == to) return text;
    if (from == DType::bfloat16)
        return convert(helpers_.bfloat16_to_float32() + "(" + text + ")", DType::float32, to);
    if (from == DType::float16 && !is_floating(to))
        return convert("(f32)" + text, DType::float32, to);
    if (to == DType::bool_) return "((b8)(" + text + " != 0))";
    if (is_floating(from) && is_integer(to)) return helpers_.saturate(from, to) + "(" + text + ")";
    if (to == DType::bfloat16) {
        const DType wide =
            from == DType::float16 || from == DType::float32 ? DType::float32 : DType::float64;
        return helpers_.bfloat16_from(wide) + "(" + convert(text, from, wide) + ")";
    }
    // Through double, which rounds no integer that float16 can tell from its neighbours.
    if (to == DType::float16 && !is_floating(from)) text = "(f64)" + text;
    return "(" + type_of(to) + ")" + text;
}

std::string Emitter::operand(Value value, DType dtype) {
    return convert(as(value, dtype), dtype, computed(dtype));
}

std::string Emitter::truth(Value value) { return as(value, DType::bool_); }

std::string Emitter::element(std::int32_t array, const Value* indices) {
    const auto& p = instance_.parameters[static_cast<std::size_t>(array)];
    uses.parameters.insert(array);
    if (p.ndim == 0) return "*" + parameter_name(array);
    const std::string counted = helpers_.target().narrow ? "(u32)" : "";
    std::string index = counted + as_index(indices[0]);
    for (int axis = 1; axis < p.ndim; ++axis) {
        uses.extents.insert({array, axis});
        index = "(" + index + " * " + counted + extent_name(array, axis) + " + " + counted +
                as_index(indices[axis]) + ")";
    }
    return parameter_name(array) + "[" + index + "]";
}

/// Whether the indices of an array are to be checked.
bool Emitter::checks(std::int32_t array) const {
    return spec_.options.check_bounds &&
           instance_.parameters[static_cast<std::size_t>(array)].ndim > 0;
}

std::string Emitter::checked(const std::string& helper, std::int32_t array, const Value* indices,
                             const std::string& value) {
    const auto& p = instance_.parameters[static_cast<std::size_t>(array)];
    uses.parameters.insert(array);
    std::string out = helper + "(fault, " + std::to_string(p.array) + ", " + parameter_name(array);
    for (int axis = 0; axis < p.ndim; ++axis) {
        uses.extents.insert({array, axis});
        out += ", " + as_index(indices[axis]) + ", " + extent_name(array, axis);
    }
    return out + (value.empty() ? ")" : ", " + value + ")");
}

std::string Emitter::arithmetic(const std::string& a, const char* symbol, const std::string& b,
                                DType d) const {
    const bool may_overflow = is_integer(d) && std::strchr("+-*", symbol[0]);
    if (helpers_.target().signed_overflow_wraps || !may_overflow)
        return "(" + a + " " + symbol + " " + b + ")";
    const std::string wide = itemsize(d) == 8 ? "(u64)" : "(u32)";
    return "((" + type_of(d) + ")(" + wide + a + " " + symbol + " " + wide + b + "))";
}

std::string Emitter::random(const Expr& e) {
    cost += 2 * function_cost;
    const std::string philox = helpers_.philox();
    std::string words = as(e.operands[0], DType::uint64);
    for (std::size_t k = 1; k < e.operands.size(); k += 2)
        words = philox + "(" + words + ", " + as(e.operands[k], DType::uint64) + ", " +
                (k + 1 < e.operands.size() ? as(e.operands[k + 1], DType::uint64) : "0") + ")";
    return helpers_.random(e.dtype) + "(" + words + ")";
}

std::string Emitter::expr(Value value) {
    const Expr& e = routine_[value];
    const DType result = dtype_of(value);
    switch (e.op) {
        case Op::literal_bool:
        case Op::literal_int:
        case Op::literal_uint:
        case Op::literal_float:
            return literal(e, result);
        case Op::local:
            uses.locals.insert(e.index);
            return local_name(e.index);
        case Op::parameter:
            uses.parameters.insert(e.index);
            return parameter_name(e.index);
        case Op::load: {
            cost += memory_cost;
            const std::string loaded =
                checks(e.index)
                    ? checked(helpers_.checked_load(result, static_cast<int>(e.operands.size())),
                              e.index, e.operands.data(), "")
                    : element(e.index, e.operands.data());
            return result == DType::bool_ ? "(" + loaded + " != 0)" : loaded;
        }
        case Op::extent: {
            const int ndim = instance_.parameters[static_cast<std::size_t>(e.index)].ndim;
            const int axis = static_cast<int>(e.integer < 0 ? e.integer + ndim : e.integer);
            uses.extents.insert({e.index, axis});
            return extent_name(e.index, axis);
        }
        case Op::size: {
            const int ndim = instance_.parameters[static_cast<std::size_t>(e.index)].ndim;
            std::string out = "1ll";
            for (int axis = 0; axis < ndim; ++axis) {
                uses.extents.insert({e.index, axis});
                out = axis ? out + " * " + extent_name(e.index, axis) : extent_name(e.index, axis);
            }
            return ndim > 1 ? "(" + out + ")" : out;
        }
        case Op::ndim:
            return std::to_string(instance_.parameters[static_cast<std::size_t>(e.index)].ndim) +
                   "ll";
        case Op::unary:
            return unary(e, result);
        case Op::binary:
            return binary(e, result);
        case Op::compare:
            return compare(e);
        case Op::logical_and:
            return "(" + truth(e.operands[0]) + " && " + truth(e.operands[1]) + ")";
        case Op::logical_or:
            return "(" + truth(e.operands[0]) + " || " + truth(e.operands[1]) + ")";
        case Op::select:
            return "(" + truth(e.operands[0]) + " ? " + as(e.operands[1], result) + " : " +
                   as(e.operands[2], result) + ")";
        case Op::cast:
            return as(e.operands[0], e.dtype);
        case Op::math:
            return math(e, result);
        case Op::call:
            return call(value, e);
        case Op::atomic:
            cost += 10;
            if (checks(e.index))
                return checked(helpers_.checked_atomic(static_cast<ir::Atomic>(e.code), result,
                                                       static_cast<int>(e.operands.size()) - 1),
                               e.index, e.operands.data(), as(e.operands.back(), result));
            return (e.index == accumulated
                        ? helpers_.plain_add(result)
                        : helpers_.atomic(static_cast<ir::Atomic>(e.code), result)) +
                   "(&" + element(e.index, e.operands.data()) + ", " +
                   as(e.operands.back(), result) + ")";
        case Op::common:
            return as(e.operands[0], result);
        case Op::random:
            return random(e);
    }
    return {};
}

std::string Emitter::unary(const Expr& e, DType result) {
    const auto op = static_cast<ir::Unary>(e.code);
    const Value operand = e.operands[0];
    cost += arithmetic_cost;
    if (op == ir::Unary::logical_not) return "(!" + truth(operand) + ")";
    if (op == ir::Unary::positive) return as(operand, result);
    if (op == ir::Unary::round && !is_floating(result)) return as(operand, result);
    if (result == DType::bool_)  // ~ and abs
        return op == ir::Unary::invert ? "(!" + truth(operand) + ")" : truth(operand);
    const DType wide = computed(result);
    const std::string x = this->operand(operand, result);
    std::string out;
    if (op == ir::Unary::invert) {
        out = "~" + x;
    } else if (op == ir::Unary::negative) {
        out = is_floating(wide) ? "-" + x : arithmetic("0", "-", x, wide);
    } else if (op == ir::Unary::round) {
        out = helpers_.round(wide) + "(" + x + ")";
    } else if (is_floating(wide)) {
        out = helpers_.magnitude(wide) + "(" + x + ")";
    } else {
        out = is_unsigned_integer(wide) ? x : helpers_.absolute(wide) + "(" + x + ")";
    }
    if (itemsize(result) < 4 && !is_half(result)) return "(" + type_of(result) + ")(" + out + ")";
    return convert("(" + out + ")", wide, result);
}

std::string Emitter::binary(const Expr& e, DType result) {
    const auto op = static_cast<ir::Binary>(e.code);
    if (op == ir::Binary::power) return power(e, result);
    const DType wide = computed(result);
    const std::string a = operand(e.operands[0], result);
    const std::string b = operand(e.operands[1], result);
    const auto called = [&](const std::string& function) {
        cost += division_cost;
        return convert(function + "(" + a + ", " + b + ")", wide, result);
    };
    const char* symbol = "";
    switch (op) {
        // NumPy's + and * of booleans are or and and.
        case ir::Binary::add:
            symbol = result == DType::bool_ ? "|" : "+";
            break;
        case ir::Binary::multiply:
            symbol = result == DType::bool_ ? "&" : "*";
            break;
        case ir::Binary::subtract:
            symbol = "-";
            break;
        case ir::Binary::divide:
            cost += division_cost;
            symbol = "/";
            break;
        case ir::Binary::bit_and:
            symbol = "&";
            break;
        case ir::Binary::bit_or:
            symbol = "|";
            break;
        case ir::Binary::bit_xor:
            symbol = "^";
            break;
        case ir::Binary::floor_divide:
            return called(helpers_.floor_divide(wide));
        case ir::Binary::remainder:
            return called(helpers_.remainder(wide));
        case ir::Binary::shift_left:
        case ir::Binary::shift_right:
            return called(helpers_.shift(op == ir::Binary::shift_left, wide));
        case ir::Binary::minimum:
        case ir::Binary::maximum:
            return called(helpers_.extremum(op == ir::Binary::maximum, wide));
        case ir::Binary::power:
            break;
    }
    cost += arithmetic_cost;
    const std::string out = arithmetic(a, symbol, b, wide);
    // C computes small integers as int; back to their width, where they wrap.
    if (itemsize(result) < 4 && !is_half(result)) return "(" + type_of(result) + ")" + out;
    return convert(out, wide, result);
}

std::string Emitter::power(const Expr& e, DType result) {
    const DType wide = computed(result);
    const Expr& exponent = routine_[e.operands[1]];
    const bool literal_exponent =
        exponent.op == Op::literal_int || exponent.op == Op::literal_float;
    const double n =
        exponent.op == Op::literal_float ? exponent.number : static_cast<double>(exponent.integer);
    const std::string base = operand(e.operands[0], result);
    if (literal_exponent && n == 2) {
        cost += arithmetic_cost;
        return convert(helpers_.square(wide) + "(" + base + ")", wide, result);
    }
    if (!is_floating(wide)) {
        cost += function_cost;
        return helpers_.power(wide) + "(" + base + ", " + operand(e.operands[1], result) + ")";
    }
    // The exponents that NumPy computes otherwise than by pow().
    if (literal_exponent && n == 1) return convert(base, wide, result);
    if (literal_exponent && n == 0.5) {
        cost += division_cost;
        return convert(helpers_.math(ir::Math::sqrt, wide) + "(" + base + ")", wide, result);
    }
    if (literal_exponent && n == -1) {
        cost += division_cost;
        return convert("(1 / " + base + ")", wide, result);
    }
    cost += math_cost;
    return convert(
        helpers_.math_power(wide) + "(" + base + ", " + operand(e.operands[1], result) + ")", wide,
        result);
}

std::string Emitter::compare(const Expr& e) {
    static constexpr const char* symbols[] = {"==", "!=", "<", "<=", ">", ">="};
    constexpr ir::Compare mirrored[] = {ir::Compare::equal,   ir::Compare::not_equal,
                                        ir::Compare::greater, ir::Compare::greater_equal,
                                        ir::Compare::less,    ir::Compare::less_equal};
    const Type a = instance_.exprs[static_cast<std::size_t>(e.operands[0])];
    const Type b = instance_.exprs[static_cast<std::size_t>(e.operands[1])];
    const auto op = static_cast<ir::Compare>(e.code);
    cost += arithmetic_cost;
    DType common = kernel::promote(a, b).dtype;
    if (!is_floating(a.dtype) && !is_floating(b.dtype)) {
        // Integers compare by value: what a weak number meets need not have room for it.
        const bool a_unsigned = a.dtype == DType::uint64;
        const bool b_unsigned = b.dtype == DType::uint64;
        if (a_unsigned != b_unsigned) {
            const Value s = e.operands[a_unsigned ? 1 : 0];
            const Value u = e.operands[a_unsigned ? 0 : 1];
            const Expr& literal_operand = routine_[s];
            const bool positive =
                !is_signed_integer(dtype_of(s)) ||
                (literal_operand.op == Op::literal_int && literal_operand.integer >= 0);
            if (!positive)
                return helpers_.compare_mixed(a_unsigned ? mirrored[e.code] : op) + "(" +
                       as(s, DType::int64) + ", " + as(u, DType::uint64) + ")";
            common = DType::uint64;
        } else if (!a_unsigned && (a.weak != Weak::none || b.weak != Weak::none)) {
            const Expr& l = routine_[e.operands[a.weak != Weak::none ? 0 : 1]];
            const DType other = (a.weak != Weak::none ? b : a).dtype;
            common = l.op == Op::literal_int && is_integer(other) &&
                             kernel::fits(other, l.integer, false)
                         ? other
                         : DType::int64;
        }
    }
    return "(" + operand(e.operands[0], common) + " " + symbols[e.code] + " " +
           operand(e.operands[1], common) + ")";
}

std::string Emitter::math(const Expr& e, DType result) {
    const auto function = static_cast<ir::Math>(e.code);
    DType argument = result;
    if (result == DType::bool_) {  // isnan and the like
        const DType d = dtype_of(e.operands[0]);
        argument = is_floating(d) ? d : DType::float64;
    }
    const DType wide = computed(argument);
    const bool cheap = function == ir::Math::floor || function == ir::Math::ceil ||
                       function == ir::Math::trunc || function == ir::Math::copysign ||
                       result == DType::bool_;
    // The only ones without a vector form; see src/backend/cpu/vector_math.cpp.
    const bool scalar =
        function == ir::Math::gamma || function == ir::Math::lgamma || function == ir::Math::fmod;
    cost += cheap                        ? arithmetic_cost
            : function == ir::Math::sqrt ? division_cost
            : scalar                     ? function_cost
                                         : math_cost;
    std::string out = helpers_.math(function, wide) + "(";
    for (std::size_t k = 0; k < e.operands.size(); ++k)
        out += (k ? ", " : "") + operand(e.operands[k], argument);
    out += ")";
    if (result == DType::bool_) return "((b8)(" + out + " != 0))";
    return convert(out, wide, result);
}

std::string Emitter::call(Value value, const Expr& e) {
    const std::int32_t callee = instance_.callees[static_cast<std::size_t>(value)];
    const auto& parameters = spec_.instances[static_cast<std::size_t>(callee)].parameters;
    uses.callees.insert(callee);
    cost += function_cost;
    std::string out = function_name(spec_, callee) + "(";
    if (spec_.options.check_bounds) out += e.operands.empty() ? "fault" : "fault, ";
    for (std::size_t k = 0; k < e.operands.size(); ++k) {
        if (k) out += ", ";
        if (!parameters[k].is_array) {
            out += as(e.operands[k], parameters[k].type.dtype);
            continue;
        }
        const std::int32_t array = routine_[e.operands[k]].index;
        uses.parameters.insert(array);
        out += parameter_name(array);
        for (int axis = 0; axis < parameters[k].ndim; ++axis) {
            uses.extents.insert({array, axis});
            out += ", " + extent_name(array, axis);
        }
    }
    return out + ")";
}

}  // namespace tack::codegen
