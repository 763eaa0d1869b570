#include <algorithm>
#include <string>

#include "kernel/specialization.hpp"
#include "tack/error.hpp"

namespace tack::kernel {

namespace {

using ir::Expr;
using ir::Op;
using ir::Stmt;
using ir::StmtOp;
using ir::Value;

std::string describe(Type type) {
    switch (type.weak) {
        case Weak::integer:
            return "int";
        case Weak::floating:
            return "float";
        case Weak::index:
            return "int64";
        default:
            return std::string(name(type.dtype));
    }
}

bool is_integral(Type t) { return !t.known || is_integer(t.dtype); }
bool is_bool(Type t) { return t.known && t.dtype == DType::bool_; }

/// Finds the types of one instance, and through its calls those of the others.
class Typing {
public:
    Typing(Specialization& spec, std::int32_t self)
        : spec_(spec), self_(self), routine_(spec.routine(spec.instances[index(self)])) {}

    void run() {
        Instance& own = instance();
        own.exprs.assign(routine_.exprs.size(), {});
        own.callees.assign(routine_.exprs.size(), -1);
        own.locals.assign(routine_.locals.size(), {});
        // A local has one type, the promotion of all that is assigned to it, so what a loop's end
        // assigns changes its beginning. Types only grow, and there are few: this ends.
        do {
            changed_ = false;
            block(routine_.body);
        } while (changed_);
        settled_ = true;
        block(routine_.body);
        instance().finished = true;
    }

private:
    static std::size_t index(std::int32_t k) { return static_cast<std::size_t>(k); }
    Instance& instance() { return spec_.instances[index(self_)]; }
    const ParameterType& parameter(std::int32_t k) { return instance().parameters[index(k)]; }
    const std::string& parameter_name(std::int32_t k) { return routine_.parameters[index(k)].name; }
    [[noreturn]] void fail(ir::Location where, const std::string& message) {
        ir::fail(routine_, where, message);
    }

    // statements

    void block(const ir::Block& statements) {
        for (const Stmt& s : statements) statement(s);
    }

    void statement(const Stmt& s) {
        switch (s.op) {
            case StmtOp::assign:
                assign(s.index, expr(s.operands[0]), s.where);
                break;
            case StmtOp::store: {
                access_array(s.index, s.operands, s.where).stores = true;
                number(s.operands.back());
                break;
            }
            case StmtOp::evaluate:
                expr(s.operands[0]);
                break;
            case StmtOp::parallel:
            case StmtOp::for_range:
                for (std::size_t k = 0; k < s.locals.size(); ++k) {
                    bound(s.ranges[k].start);
                    bound(s.ranges[k].stop);
                    bound(s.ranges[k].step);
                    check_step(s.ranges[k].step);
                    assign(static_cast<std::int32_t>(s.locals[k]), index_type, s.where);
                }
                block(s.body);
                break;
            case StmtOp::while_loop:
            case StmtOp::if_else:
                number(s.operands[0]);
                ++branches_;
                block(s.body);
                block(s.otherwise);
                --branches_;
                break;
            case StmtOp::return_value:
                if (instance().results.empty()) instance().results.resize(s.operands.size());
                for (std::size_t k = 0; k < s.operands.size(); ++k) {
                    Type& result = instance().results[k];
                    const Type joined = join(result, number(s.operands[k]));
                    changed_ |= joined != result;
                    result = joined;
                }
                break;
            case StmtOp::unpack: {
                expr(s.operands[0]);
                const std::int32_t callee =
                    instance().callees[static_cast<std::size_t>(s.operands[0])];
                if (callee < 0) break;  // in the next round
                const std::vector<Type> results = spec_.instances[index(callee)].results;
                if (results.size() != s.locals.size())
                    fail(s.where, std::to_string(s.locals.size()) + " targets for " +
                                      std::to_string(results.size()) + " returned values");
                for (std::size_t k = 0; k < s.locals.size(); ++k)
                    assign(static_cast<std::int32_t>(s.locals[k]), results[k], s.where);
                break;
            }
            case StmtOp::break_loop:
            case StmtOp::continue_loop:
                break;
        }
    }

    void assign(std::int32_t local, Type value, ir::Location where) {
        if (settled_ && !value.known)
            fail(where, "this has no value to assign to '" + routine_.locals[index(local)] + "'");
        Type& type = instance().locals[index(local)];
        const bool temporary = routine_.temporaries.contains(local);
        const Type joined = temporary ? promote(type, value) : join(type, value);
        changed_ |= joined != type;
        type = joined;
    }

    void bound(Value v) {
        const Type t = number(v);
        if (!is_integral(t))
            fail(routine_[v].where,
                 "a range needs integers, not " + describe(t) + "; convert it with int(...)");
    }

    /// Python's range raises ValueError for a step of 0; what is known at the launch does too.
    void check_step(Value v) {
        const Expr& e = routine_[v];
        if (e.op == Op::unary && static_cast<ir::Unary>(e.code) != ir::Unary::logical_not)
            return check_step(e.operands[0]);
        if (e.op == Op::local) {
            std::vector<Value> assigned;
            assignments(routine_.body, e.index, assigned);
            if (assigned.size() == 1) check_step(assigned[0]);
            return;
        }
        if (e.op == Op::literal_int && e.integer == 0) {
            try {
                fail(e.where, "the step of a range cannot be 0");
            } catch (const Error& error) {
                throw Error(ErrorKind::value, error.what());
            }
        }
        // Under a condition, the user may have seen to it.
        if (e.op == Op::parameter && settled_ && instance().function < 0 && branches_ == 0)
            spec_.steps.push_back(e.index);
    }

    static void assignments(const ir::Block& statements, std::int32_t local,
                            std::vector<Value>& found) {
        for (const Stmt& s : statements) {
            if (s.op == StmtOp::assign && s.index == local) found.push_back(s.operands[0]);
            assignments(s.body, local, found);
            assignments(s.otherwise, local, found);
        }
    }

    Access& access_array(std::int32_t array, const std::vector<Value>& operands,
                         ir::Location where) {
        // operands: indices, then a value
        return access_array(array, operands.data(), operands.size() - 1, where);
    }

    Access& access_array(std::int32_t array, const Value* indices, std::size_t count,
                         ir::Location where) {
        const ParameterType& p = require_array(array, where);
        const std::string& array_name = parameter_name(array);
        if (static_cast<int>(count) != p.ndim)
            fail(where, "'" + array_name + "' has " + std::to_string(p.ndim) +
                            (p.ndim == 1 ? " dimension" : " dimensions") +
                            ", but is indexed with " + std::to_string(count));
        for (std::size_t k = 0; k < count; ++k) {
            const Type t = number(indices[k]);
            if (!is_integral(t))
                fail(routine_[indices[k]].where, "'" + array_name + "' is indexed with a " +
                                                     describe(t) + "; convert it with int(...)");
            const Expr& e = routine_[indices[k]];
            if (e.op == Op::literal_int && e.integer < 0)
                fail(e.where, "a negative index; write " + array_name + ".shape[" +
                                  std::to_string(k) + "] - " + std::to_string(-e.integer));
        }
        return spec_.access[index(parameter(array).array)];
    }

    const ParameterType& require_array(std::int32_t k, ir::Location where) {
        const ParameterType& p = parameter(k);
        if (!p.is_array)
            fail(where, "'" + parameter_name(k) + "' is a number (" + describe(p.type) +
                            ") here, not an array");
        return p;
    }

    // expressions

    /// The type of a value that must be a number.
    Type number(Value v) {
        const Type t = expr(v);
        if (settled_ && !t.known) fail(routine_[v].where, "this has no value");
        return t;
    }

    Type expr(Value v) {
        const Type t = type_of(v, routine_[v]);
        instance().exprs[static_cast<std::size_t>(v)] = t;
        return t;
    }

    Type type_of(Value v, const Expr& e) {
        switch (e.op) {
            case Op::literal_bool:
                return strong(DType::bool_);
            case Op::literal_int:
                return weak_int_type;
            case Op::literal_uint:
                return weak_uint_type;
            case Op::literal_float:
                return weak_float_type;
            case Op::local:
                return instance().locals[index(e.index)];
            case Op::parameter:
                if (parameter(e.index).is_array)
                    fail(e.where, "'" + parameter_name(e.index) +
                                      "' is an array, used as a number; index it, as in " +
                                      parameter_name(e.index) + "[i]");
                return parameter(e.index).type;
            case Op::load:
                access_array(e.index, e.operands.data(), e.operands.size(), e.where).loads = true;
                return parameter(e.index).type;
            case Op::extent: {
                const int ndim = require_array(e.index, e.where).ndim;
                if (e.code && ndim != e.code - 1)
                    fail(e.where, "'" + parameter_name(e.index) + "' has " + std::to_string(ndim) +
                                      (ndim == 1 ? " dimension" : " dimensions") +
                                      ", but its shape is unpacked into " +
                                      std::to_string(e.code - 1));
                if (e.integer >= ndim || e.integer < -ndim)
                    fail(e.where, "'" + parameter_name(e.index) + "' has " + std::to_string(ndim) +
                                      (ndim == 1 ? " dimension" : " dimensions") + ": no shape[" +
                                      std::to_string(e.integer) + "]");
                return index_type;
            }
            case Op::size:
            case Op::ndim:
                require_array(e.index, e.where);
                return index_type;
            case Op::unary:
                return unary(e);
            case Op::binary:
                return binary(e);
            case Op::compare:
                number(e.operands[0]);
                number(e.operands[1]);
                return strong(DType::bool_);
            case Op::logical_and:
            case Op::logical_or:
                number(e.operands[0]);
                number(e.operands[1]);
                return strong(DType::bool_);
            case Op::select: {
                number(e.operands[0]);
                const Type a = number(e.operands[1]);
                const Type b = number(e.operands[2]);
                const Type t = promote(a, b);
                becomes(e.operands[1], t);
                becomes(e.operands[2], t);
                return t;
            }
            case Op::cast:
                number(e.operands[0]);
                return strong(e.dtype);
            case Op::math:
                return math(e);
            case Op::call:
                return call(v, e);
            case Op::atomic:
                return atomic(e);
            case Op::common: {
                Type t;
                for (const Value operand : e.operands) t = promote(t, number(operand));
                becomes(e.operands[0], t);
                return t;
            }
            case Op::random:
                for (const Value operand : e.operands)
                    if (const Type t = number(operand); !is_integral(t))
                        fail(routine_[operand].where, "random() takes integers, not a " +
                                                          describe(t) +
                                                          "; convert it with int(...)");
                return strong(e.dtype);
        }
        return {};
    }

    Type unary(const Expr& e) {
        const Type t = number(e.operands[0]);
        const auto op = static_cast<ir::Unary>(e.code);
        if (op == ir::Unary::logical_not) return strong(DType::bool_);
        if (op == ir::Unary::invert && t.known && is_floating(t.dtype))
            fail(e.where, "~ of a " + describe(t) + "; it takes integers and booleans");
        if ((op == ir::Unary::negative || op == ir::Unary::positive) && is_bool(t))
            fail(e.where, "the sign of a bool; write `not x`, or convert it with int(...)");
        if (op == ir::Unary::round && is_bool(t))
            fail(e.where, "round() of a bool; convert it with int(...)");
        return t;
    }

    Type binary(const Expr& e) {
        const auto op = static_cast<ir::Binary>(e.code);
        const Type a = number(e.operands[0]);
        const Type b = number(e.operands[1]);
        Type t = promote(a, b);
        if (!t.known) return t;
        switch (op) {
            case ir::Binary::subtract:
                if (is_bool(t)) fail(e.where, "- of two bools; write `a != b`");
                break;
            case ir::Binary::divide:
                t = to_floating(t);
                break;
            case ir::Binary::floor_divide:
            case ir::Binary::remainder:
            case ir::Binary::shift_left:
            case ir::Binary::shift_right:
                if (is_bool(t)) t = strong(DType::int8);
                break;
            case ir::Binary::power:
                if (is_bool(t)) t = strong(DType::int8);
                return power(e, a, t);
            default:
                break;
        }
        if (op >= ir::Binary::bit_and && op <= ir::Binary::shift_right && is_floating(t.dtype))
            fail(e.where, "a bit operation on " + describe(a) + " and " + describe(b) +
                              "; it takes integers and booleans");
        becomes(e.operands[0], t);
        becomes(e.operands[1], t);
        return t;
    }

    /// NumPy refuses negative integer powers of integers; the exponent need not fit the base's
    /// dtype otherwise.
    Type power(const Expr& e, Type base, Type t) {
        const Expr& exponent = routine_[e.operands[1]];
        if (!is_floating(t.dtype) && exponent.op == Op::literal_int && exponent.integer < 0)
            fail(e.where, "an integer to the power of " + std::to_string(exponent.integer) +
                              "; write float(x) ** " + std::to_string(exponent.integer));
        if (base.weak != Weak::none) becomes(e.operands[0], t);
        return t;
    }

    Type math(const Expr& e) {
        Type t;
        for (const Value v : e.operands) t = promote(t, number(v));
        t = to_floating(t);
        for (const Value v : e.operands) becomes(v, t);
        const auto f = static_cast<ir::Math>(e.code);
        if (f == ir::Math::isfinite || f == ir::Math::isinf || f == ir::Math::isnan)
            return strong(DType::bool_);
        return t;
    }

    Type call(Value v, const Expr& e) {
        std::vector<ParameterType> arguments;
        for (const Value operand : e.operands) {
            const Expr& argument = routine_[operand];
            if (argument.op == Op::parameter && parameter(argument.index).is_array) {
                arguments.push_back(parameter(argument.index));
                continue;
            }
            const Type t = number(operand);
            if (!t.known) return {};  // in the next round
            ParameterType& p = arguments.emplace_back();
            p.type = t;
        }
        const std::int32_t callee = instantiate(e.index, std::move(arguments), e.where);
        instance().callees[static_cast<std::size_t>(v)] = callee;
        const std::vector<Type>& results = spec_.instances[index(callee)].results;
        return results.empty() ? Type{} : results[0];
    }

    std::int32_t instantiate(std::int32_t function, std::vector<ParameterType> arguments,
                             ir::Location where) {
        for (std::size_t k = 0; k < spec_.instances.size(); ++k) {
            const Instance& other = spec_.instances[k];
            if (other.function == function && !other.finished) {
                const std::string& name = spec_.routine(other).name;
                fail(where, "'" + name +
                                "' calls itself, directly or through others; kernels "
                                "have no recursion: write a loop");
            }
            if (other.function == function && other.parameters == arguments)
                return static_cast<std::int32_t>(k);
        }
        Instance& added = spec_.instances.emplace_back();
        added.function = function;
        added.parameters = std::move(arguments);
        const auto callee = static_cast<std::int32_t>(spec_.instances.size() - 1);
        Typing(spec_, callee).run();
        return callee;
    }

    Type atomic(const Expr& e) {
        Access& access = access_array(e.index, e.operands, e.where);
        access.loads = access.stores = true;
        number(e.operands.back());
        const Type t = parameter(e.index).type;
        constexpr DType allowed[] = {DType::int32,  DType::uint32,  DType::int64,
                                     DType::uint64, DType::float32, DType::float64};
        if (std::find(std::begin(allowed), std::end(allowed), t.dtype) == std::end(allowed))
            fail(e.where, "an atomic on '" + parameter_name(e.index) + "' of " + describe(t) +
                              "; it takes int32, uint32, int64, uint64, float32 and float64");
        becomes(e.operands.back(), t);
        return t;
    }

    /// `v` is used as `target`: a literal, or a Python int given at the launch, must be a value of
    /// it. NumPy raises OverflowError for such literals; here it is known while compiling.
    void becomes(Value v, Type target) {
        if (!settled_ || target.weak != Weak::none || !is_integer(target.dtype)) return;
        const Expr& e = routine_[v];
        if (e.op == Op::literal_int || e.op == Op::literal_uint) {
            if (!fits(target.dtype, e.integer, e.op == Op::literal_uint))
                fail(e.where, (e.op == Op::literal_uint
                                   ? std::to_string(static_cast<std::uint64_t>(e.integer))
                                   : std::to_string(e.integer)) +
                                  " is not a value of " + describe(target) +
                                  ", the type it takes here; cast the other operand first, as in "
                                  "tack.int64(x)");
        } else if (e.op == Op::parameter && instance().function < 0 &&
                   parameter(e.index).type.weak == Weak::integer) {
            if (parameter(e.index).type == weak_uint_type) {
                if (target.dtype != DType::uint64)
                    throw Error(ErrorKind::value,
                                routine_.name + ": argument '" + parameter_name(e.index) +
                                    "' is above int64, not a value of " + describe(target) +
                                    ", the type it takes in the kernel; pass a float or a number "
                                    "with a dtype of its own");
                return;
            }
            narrow(spec_.ranges[index(e.index)], target.dtype);
        }
    }

    static void narrow(IntegerRange& range, DType dtype) {
        const int width = static_cast<int>(itemsize(dtype)) * 8;
        std::int64_t low = 0;
        std::int64_t high = std::numeric_limits<std::int64_t>::max();
        if (is_signed_integer(dtype)) {
            high >>= 64 - width;
            low = -high - 1;
        } else if (width < 64) {
            high = (std::int64_t{1} << width) - 1;
        }
        if (low > range.low || high < range.high) range.dtype = dtype;
        range.low = std::max(range.low, low);
        range.high = std::min(range.high, high);
    }

    Specialization& spec_;
    const std::int32_t self_;
    const ir::Routine& routine_;
    bool changed_ = false;
    int branches_ = 0;      // of the statement that is being typed
    bool settled_ = false;  // all types are known: what is still missing is the user's mistake
};

/// Checks that what is read has been assigned on every way there, and that parallel iterations
/// assign nothing that outlives them.
class Assignment {
public:
    explicit Assignment(const ir::Routine& routine) : routine_(routine) {}

    void run() {
        State state{std::vector<bool>(routine_.locals.size(), false), true};
        outside_.assign(routine_.locals.size(), false);
        block(routine_.body, state);
        if (returns_value_ && state.reachable)
            ir::fail(routine_, last_return_,
                     "'" + routine_.name + "' may end without returning a value");
    }

private:
    struct State {
        std::vector<bool> assigned;
        bool reachable;
    };

    static void meet(State& into, const State& other) {
        if (!other.reachable) return;
        if (!into.reachable) {
            into = other;
            return;
        }
        for (std::size_t k = 0; k < into.assigned.size(); ++k)
            into.assigned[k] = into.assigned[k] && other.assigned[k];
    }

    void block(const ir::Block& statements, State& state) {
        for (const Stmt& s : statements) statement(s, state);
    }

    void statement(const Stmt& s, State& state) {
        for (const Value v : s.operands) reads(v, state);
        for (const ir::Range& r : s.ranges) {
            reads(r.start, state);
            reads(r.stop, state);
            reads(r.step, state);
        }
        switch (s.op) {
            case StmtOp::assign:
                assign(s.index, s.where, state);
                break;
            case StmtOp::unpack:
                for (const ir::Local l : s.locals)
                    assign(static_cast<std::int32_t>(l), s.where, state);
                break;
            case StmtOp::parallel: {
                State inside = state;
                outside_ = state.assigned;
                for (const ir::Local l : s.locals) set(inside, static_cast<std::int32_t>(l));
                in_parallel_ = true;
                loop(s.body, inside);
                in_parallel_ = false;
                break;
            }
            case StmtOp::for_range: {
                State inside = state;
                set(inside, static_cast<std::int32_t>(s.locals[0]));
                const State broken = loop(s.body, inside);
                if (has_a_pass(s.ranges[0])) state = std::move(inside);
                meet(state, broken);
                break;
            }
            case StmtOp::while_loop: {
                const ir::Expr& condition = routine_[s.operands[0]];
                const bool forever =
                    (condition.op == Op::literal_bool || condition.op == Op::literal_int) &&
                    condition.integer != 0;
                State inside = state;
                const State broken = loop(s.body, inside);
                if (forever) state.reachable = false;
                meet(state, broken);
                break;
            }
            case StmtOp::if_else: {
                State otherwise = state;
                block(s.body, state);
                block(s.otherwise, otherwise);
                meet(state, otherwise);
                break;
            }
            case StmtOp::break_loop:
                meet(breaks_.back(), state);
                state.reachable = false;
                break;
            case StmtOp::continue_loop:
                meet(continues_.back(), state);
                state.reachable = false;
                break;
            case StmtOp::return_value:
                if (!s.operands.empty()) {
                    returns_value_ = true;
                    last_return_ = s.where;
                }
                state.reachable = false;
                break;
            case StmtOp::store:
            case StmtOp::evaluate:
                break;
        }
    }

    void assign(std::int32_t local, ir::Location where, State& state) {
        if (in_parallel_ && outside_[static_cast<std::size_t>(local)])
            ir::fail(routine_, where,
                     "'" + routine_.locals[static_cast<std::size_t>(local)] +
                         "' is from outside the parallel loop, whose iterations "
                         "are unordered and cannot share it; to accumulate, write "
                         "tack.atomic_add(result, 0, value) on an array argument, else use "
                         "another name for a variable of the iteration");
        set(state, local);
    }

    /// Walks a loop's body, leaving `inside` as a pass ends, and gives the state where its breaks
    /// lead.
    State loop(const ir::Block& body, State& inside) {
        breaks_.push_back({inside.assigned, false});
        continues_.push_back({inside.assigned, false});
        block(body, inside);
        meet(inside, continues_.back());
        continues_.pop_back();
        State broken = std::move(breaks_.back());
        breaks_.pop_back();
        return broken;
    }

    /// Whether literal bounds show that the loop runs at least once.
    bool has_a_pass(const ir::Range& range) const {
        const ir::Expr& start = routine_[range.start];
        const ir::Expr& stop = routine_[range.stop];
        const ir::Expr& step = routine_[range.step];
        if (start.op != Op::literal_int || stop.op != Op::literal_int || step.op != Op::literal_int)
            return false;
        return step.integer > 0 ? start.integer < stop.integer : start.integer > stop.integer;
    }

    static void set(State& state, std::int32_t local) {
        state.assigned[static_cast<std::size_t>(local)] = true;
    }

    void reads(Value v, const State& state) {
        const Expr& e = routine_[v];
        for (const Value operand : e.operands) reads(operand, state);
        if (e.op == Op::local && state.reachable &&
            !state.assigned[static_cast<std::size_t>(e.index)])
            ir::fail(routine_, e.where,
                     "'" + routine_.locals[static_cast<std::size_t>(e.index)] +
                         "' may be read before it is assigned; give it a value first");
    }

    const ir::Routine& routine_;
    std::vector<bool> outside_;     // assigned before the parallel loop that is being walked
    std::vector<State> breaks_;     // of the loops around, outermost first
    std::vector<State> continues_;  // likewise
    bool in_parallel_ = false;
    bool returns_value_ = false;
    ir::Location last_return_;
};

}  // namespace

Specialization specialize(std::shared_ptr<const ir::Program> program,
                          std::vector<ParameterType> parameters, Options options, bool no_alias) {
    Specialization spec;
    spec.program = std::move(program);
    spec.options = options;
    spec.no_alias = no_alias;
    spec.access.resize(parameters.size());
    spec.ranges.resize(parameters.size());
    Assignment(spec.program->kernel).run();
    for (const ir::Routine& function : spec.program->functions) Assignment(function).run();
    spec.instances.emplace_back().parameters = std::move(parameters);
    Typing(spec, 0).run();
    return spec;
}

}  // namespace tack::kernel
