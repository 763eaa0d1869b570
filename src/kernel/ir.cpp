#include "kernel/ir.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "tack/error.hpp"

namespace tack::ir {

namespace {

constexpr std::array<std::string_view, math_count> math_names = {
    "acos",     "acosh", "asin",  "asinh",    "atan",  "atan2", "atanh",  "cbrt",  "ceil",
    "copysign", "cos",   "cosh",  "erf",      "erfc",  "exp",   "exp2",   "expm1", "floor",
    "fmod",     "gamma", "hypot", "isfinite", "isinf", "isnan", "lgamma", "log",   "log10",
    "log1p",    "log2",  "sin",   "sinh",     "sqrt",  "tan",   "tanh",   "trunc",
};
static_assert(math_names.back() == "trunc");

constexpr std::array<const char*, 6> unary_names = {"-", "+", "~", "not ", "abs ", "round "};
constexpr std::array<const char*, 14> binary_names = {"+", "-", "*", "/",  "//", "%",   "**",
                                                      "&", "|", "^", "<<", ">>", "min", "max"};
constexpr std::array<const char*, 6> compare_names = {"==", "!=", "<", "<=", ">", ">="};
constexpr std::array<const char*, 3> atomic_names = {"atomic_add", "atomic_min", "atomic_max"};

/// The shortest text that reads back as the same number, and never as an integer.
std::string number_text(double number) {
    char text[32];
    const auto result = std::to_chars(text, text + sizeof text, number);
    std::string out(text, result.ptr);
    if (out.find_first_of(".en") == std::string::npos) out += ".0";
    return out;
}

class Writer {
public:
    explicit Writer(const Program& program) : program_(program) {}

    std::string write() {
        routine(program_.kernel, "kernel");
        for (const Routine& function : program_.functions) routine(function, "function");
        return std::move(out_);
    }

private:
    void routine(const Routine& r, const char* kind) {
        routine_ = &r;
        out_ += std::string(kind) + " " + r.name + "(";
        for (std::size_t k = 0; k < r.parameters.size(); ++k) {
            const ParameterInfo& p = r.parameters[k];
            if (k) out_ += ", ";
            out_ += p.name;
            if (p.kind != ParameterInfo::Kind::any) {
                out_ += ": " + std::string(tack::name(p.dtype));
                if (p.kind == ParameterInfo::Kind::array) out_ += "[]";
            }
        }
        out_ += ")\n";
        names_.assign(r.locals.size(), {});
        name_locals(r.body);
        block(r.body, 1);
    }

    /// Locals of one name are told apart by a number, in the order in which they are assigned.
    void name_locals(const Block& statements) {
        for (const Stmt& s : statements) {
            if (s.op == StmtOp::assign) name_local(s.index);
            for (const Local l : s.locals) name_local(static_cast<std::int32_t>(l));
            name_locals(s.body);
            name_locals(s.otherwise);
        }
    }

    void name_local(std::int32_t index) {
        std::string& name = names_[static_cast<std::size_t>(index)];
        if (!name.empty()) return;
        const std::string& own = routine_->locals[static_cast<std::size_t>(index)];
        std::string tried = own;
        for (int k = 1; std::find(names_.begin(), names_.end(), tried) != names_.end(); ++k)
            tried = own + "." + std::to_string(k);
        name = tried;
    }

    void block(const Block& statements, int depth) {
        for (const Stmt& s : statements) statement(s, depth);
    }

    void statement(const Stmt& s, int depth) {
        out_.append(static_cast<std::size_t>(depth) * 4, ' ');
        switch (s.op) {
            case StmtOp::assign:
                out_ += local_name(s.index) + " = " + text(s.operands[0]) + "\n";
                break;
            case StmtOp::store:
                out_ += access(s.index, s.operands, s.operands.size() - 1) + " = " +
                        text(s.operands.back()) + "\n";
                break;
            case StmtOp::evaluate:
                out_ += text(s.operands[0]) + "\n";
                break;
            case StmtOp::parallel:
            case StmtOp::for_range:
                out_ += s.op == StmtOp::parallel ? "parallel " : "for ";
                for (std::size_t k = 0; k < s.locals.size(); ++k) {
                    const Range& r = s.ranges[k];
                    if (k) out_ += ", ";
                    out_ += local_name(static_cast<std::int32_t>(s.locals[k])) + " in range(" +
                            text(r.start) + ", " + text(r.stop) + ", " + text(r.step) + ")";
                }
                out_ += "\n";
                block(s.body, depth + 1);
                break;
            case StmtOp::while_loop:
                out_ += "while " + text(s.operands[0]) + "\n";
                block(s.body, depth + 1);
                break;
            case StmtOp::if_else:
                out_ += "if " + text(s.operands[0]) + "\n";
                block(s.body, depth + 1);
                if (!s.otherwise.empty()) {
                    out_.append(static_cast<std::size_t>(depth) * 4, ' ');
                    out_ += "else\n";
                    block(s.otherwise, depth + 1);
                }
                break;
            case StmtOp::break_loop:
                out_ += "break\n";
                break;
            case StmtOp::continue_loop:
                out_ += "continue\n";
                break;
            case StmtOp::return_value:
                out_ += s.operands.empty() ? "return\n"
                                           : "return " + list(s.operands, s.operands.size()) + "\n";
                break;
            case StmtOp::unpack:
                for (std::size_t k = 0; k < s.locals.size(); ++k)
                    out_ += (k ? ", " : "") + local_name(static_cast<std::int32_t>(s.locals[k]));
                out_ += " = " + text(s.operands[0]) + "\n";
                break;
        }
    }

    const std::string& local_name(std::int32_t index) const {
        return names_[static_cast<std::size_t>(index)];
    }

    const std::string& parameter_name(std::int32_t index) const {
        return routine_->parameters[static_cast<std::size_t>(index)].name;
    }

    std::string list(const std::vector<Value>& values, std::size_t count) const {
        std::string out;
        for (std::size_t k = 0; k < count; ++k) out += (k ? ", " : "") + text(values[k]);
        return out;
    }

    std::string access(std::int32_t array, const std::vector<Value>& values,
                       std::size_t count) const {
        return parameter_name(array) + "[" + list(values, count) + "]";
    }

    std::string text(Value value) const {
        const Expr& e = (*routine_)[value];
        const auto operand = [&](std::size_t k) { return text(e.operands[k]); };
        switch (e.op) {
            case Op::literal_bool:
                return e.integer ? "True" : "False";
            case Op::literal_int:
                return std::to_string(e.integer);
            case Op::literal_uint:
                return std::to_string(static_cast<std::uint64_t>(e.integer));
            case Op::literal_float:
                return number_text(e.number);
            case Op::local:
                return local_name(e.index);
            case Op::parameter:
                return parameter_name(e.index);
            case Op::load:
                return access(e.index, e.operands, e.operands.size());
            case Op::extent:
                return parameter_name(e.index) + ".shape[" + std::to_string(e.integer) + "]";
            case Op::size:
                return parameter_name(e.index) + ".size";
            case Op::ndim:
                return parameter_name(e.index) + ".ndim";
            case Op::unary:
                return std::string("(") + unary_names[e.code] + operand(0) + ")";
            case Op::binary:
                return "(" + operand(0) + " " + binary_names[e.code] + " " + operand(1) + ")";
            case Op::compare:
                return "(" + operand(0) + " " + compare_names[e.code] + " " + operand(1) + ")";
            case Op::logical_and:
                return "(" + operand(0) + " and " + operand(1) + ")";
            case Op::logical_or:
                return "(" + operand(0) + " or " + operand(1) + ")";
            case Op::select:
                return "(" + operand(1) + " if " + operand(0) + " else " + operand(2) + ")";
            case Op::cast:
                return std::string(tack::name(e.dtype)) + "(" + operand(0) + ")";
            case Op::math:
                return std::string(math_names[e.code]) + "(" + list(e.operands, e.operands.size()) +
                       ")";
            case Op::call:
                return program_.functions[static_cast<std::size_t>(e.index)].name + "(" +
                       list(e.operands, e.operands.size()) + ")";
            case Op::atomic:
                return std::string(atomic_names[e.code]) + "(" +
                       access(e.index, e.operands, e.operands.size() - 1) + ", " +
                       text(e.operands.back()) + ")";
            case Op::common:
                return "common(" + list(e.operands, e.operands.size()) + ")";
            case Op::random:
                return "random(" + list(e.operands, e.operands.size()) + ", " +
                       std::string(tack::name(e.dtype)) + ")";
        }
        return {};
    }

    const Program& program_;
    const Routine* routine_ = nullptr;
    std::vector<std::string> names_;  // of the routine's locals
    std::string out_;
};

/// The line-th line of a text that begins at line `first`, or empty.
std::string_view line_of(const Source& source, int line) {
    std::string_view rest = source.text;
    for (int k = source.line; k < line && !rest.empty(); ++k) {
        const std::size_t end = rest.find('\n');
        rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    }
    return line < source.line ? std::string_view() : rest.substr(0, rest.find('\n'));
}

}  // namespace

std::string_view name(Math function) { return math_names[static_cast<std::size_t>(function)]; }

std::string to_string(const Program& program) { return Writer(program).write(); }

void fail(const Routine& routine, Location where, const std::string& message) {
    const Source& source = routine.source;
    std::string out;
    if (source.file.empty() || where.line == 0) {
        out = "kernel '" + routine.name + "': error: " + message;
        if (!source.file.empty()) out = source.file + ": " + out;
        throw Error(ErrorKind::compile, out);
    }
    out = source.file + ":" + std::to_string(where.line);
    if (where.column) out += ":" + std::to_string(where.column);
    out += ": error: " + message;
    const std::string_view line = line_of(source, where.line);
    if (!line.empty()) {
        const std::size_t indent = line.find_first_not_of(" \t");
        if (indent != std::string_view::npos) {
            out += "\n    " + std::string(line.substr(indent));
            const std::size_t column = static_cast<std::size_t>(where.column);
            if (column > indent) out += "\n    " + std::string(column - 1 - indent, ' ') + "^";
        }
    }
    throw Error(ErrorKind::compile, out);
}

}  // namespace tack::ir
