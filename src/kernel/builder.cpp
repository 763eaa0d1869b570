#include <cassert>

#include "kernel/passes.hpp"
#include "tack/error.hpp"

namespace tack::ir {

namespace {

/// What is open between a statement's beginning and its end().
struct Open {
    StmtOp op;
    Block* block;  // stays put: nothing is added to the block around it while it is open
};

/// The kernel, or a device function whose building interrupted it.
struct Context {
    Routine* routine;
    std::vector<Open> open;
    Location where;
};

}  // namespace

struct Builder::State {
    std::shared_ptr<Program> program = std::make_shared<Program>();
    std::vector<Context> contexts;

    Context& top() { return contexts.back(); }
    Routine& routine() { return *top().routine; }
    bool in_function() const { return contexts.size() > 1; }
    Block& block() { return top().open.empty() ? routine().body : *top().open.back().block; }

    bool inside(StmtOp op) {
        for (const Open& o : top().open)
            if (o.op == op) return true;
        return false;
    }

    Value add(Expr&& e) {
        e.where = top().where;
        routine().exprs.push_back(std::move(e));
        return static_cast<Value>(routine().exprs.size() - 1);
    }

    Stmt& add(StmtOp op) {
        Stmt& s = block().emplace_back();
        s.op = op;
        s.where = top().where;
        return s;
    }

    void open(StmtOp op, Block& block) { top().open.push_back({op, &block}); }

    [[noreturn]] void fail(const std::string& message) {
        ir::fail(routine(), top().where, message);
    }

    Parameter add_parameter(std::string name, ParameterInfo::Kind kind, DType dtype) {
        auto& parameters = program->kernel.parameters;
        parameters.push_back({std::move(name), kind, dtype});
        return static_cast<Parameter>(parameters.size() - 1);
    }
};

Builder::Builder(std::string name) : state_(std::make_unique<State>()) {
    state_->program->kernel.name = std::move(name);
    state_->contexts.push_back({&state_->program->kernel, {}, {}});
}
Builder::Builder(Builder&&) noexcept = default;
Builder& Builder::operator=(Builder&&) noexcept = default;
Builder::~Builder() = default;

void Builder::source(std::string file, int line, std::string text) {
    state_->routine().source = {std::move(file), line, std::move(text)};
}
void Builder::at(int line, int column) { state_->top().where = {line, column}; }
void Builder::fail(const std::string& message) const { state_->fail(message); }

Parameter Builder::parameter(std::string name) {
    return state_->add_parameter(std::move(name), ParameterInfo::Kind::any, DType::bool_);
}
Parameter Builder::array_parameter(std::string name, DType dtype) {
    return state_->add_parameter(std::move(name), ParameterInfo::Kind::array, dtype);
}
Parameter Builder::scalar_parameter(std::string name, DType dtype) {
    return state_->add_parameter(std::move(name), ParameterInfo::Kind::scalar, dtype);
}

Function Builder::begin_function(std::string name, std::span<const std::string> parameters) {
    auto& functions = state_->program->functions;
    Routine& routine = functions.emplace_back();
    routine.name = std::move(name);
    for (const std::string& p : parameters) routine.parameters.push_back({p, {}, {}});
    state_->contexts.push_back({&routine, {}, {}});
    return static_cast<Function>(functions.size() - 1);
}

void Builder::end_function() {
    if (!state_->in_function() || !state_->top().open.empty())
        state_->fail("end_function() without an open function, or with an open loop or branch");
    state_->contexts.pop_back();
}

namespace {

Expr literal_of(Op op, std::int64_t value) { return {.op = op, .integer = value}; }

template <class E>
Expr coded(Op op, E code, std::vector<Value> operands) {
    return {.op = op, .code = static_cast<std::uint8_t>(code), .operands = std::move(operands)};
}

template <class I>
Expr indexed(Op op, I index, std::span<const Value> operands = {}) {
    return {.op = op,
            .index = static_cast<std::int32_t>(index),
            .operands = {operands.begin(), operands.end()}};
}

}  // namespace

Value Builder::literal(bool value) { return state_->add(literal_of(Op::literal_bool, value)); }
Value Builder::literal(std::int64_t value) {
    return state_->add(literal_of(Op::literal_int, value));
}
Value Builder::literal(std::uint64_t value) {
    if (value <= INT64_MAX) return literal(static_cast<std::int64_t>(value));
    return state_->add(literal_of(Op::literal_uint, static_cast<std::int64_t>(value)));
}
Value Builder::literal(double value) {
    return state_->add({.op = Op::literal_float, .number = value});
}

Value Builder::use(Local local) { return state_->add(indexed(Op::local, local)); }
Value Builder::use(Parameter parameter) { return state_->add(indexed(Op::parameter, parameter)); }
Value Builder::load(Parameter array, std::span<const Value> indices) {
    return state_->add(indexed(Op::load, array, indices));
}
Value Builder::extent(Parameter array, int axis, int ndim) {
    Expr e = indexed(Op::extent, array);
    e.integer = axis;
    e.code = static_cast<std::uint8_t>(ndim + 1);
    return state_->add(std::move(e));
}
Value Builder::size(Parameter array) { return state_->add(indexed(Op::size, array)); }
Value Builder::ndim(Parameter array) { return state_->add(indexed(Op::ndim, array)); }

Value Builder::unary(Unary op, Value operand) {
    // A negative number is a literal, so that its value can be checked against a dtype's range.
    if (op == Unary::negative) {
        const Expr& e = state_->routine()[operand];
        if (e.op == Op::literal_float) return literal(-e.number);
        if (e.op == Op::literal_int && e.integer != INT64_MIN) return literal(-e.integer);
        if (e.op == Op::literal_uint && e.integer == INT64_MIN) return literal(e.integer);
    }
    return state_->add(coded(Op::unary, op, {operand}));
}
Value Builder::binary(Binary op, Value left, Value right) {
    return state_->add(coded(Op::binary, op, {left, right}));
}
Value Builder::compare(Compare op, Value left, Value right) {
    return state_->add(coded(Op::compare, op, {left, right}));
}
Value Builder::logical_and(Value left, Value right) {
    return state_->add(coded(Op::logical_and, 0, {left, right}));
}
Value Builder::logical_or(Value left, Value right) {
    return state_->add(coded(Op::logical_or, 0, {left, right}));
}
Value Builder::select(Value condition, Value then, Value otherwise) {
    return state_->add(coded(Op::select, 0, {condition, then, otherwise}));
}
Value Builder::cast(DType dtype, Value operand) {
    Expr e = coded(Op::cast, 0, {operand});
    e.dtype = dtype;
    return state_->add(std::move(e));
}
Value Builder::math(Math function, std::span<const Value> operands) {
    const bool binary = function == Math::atan2 || function == Math::copysign ||
                        function == Math::fmod || function == Math::hypot;
    const std::size_t wanted = binary ? 2 : 1;
    if (operands.size() != wanted)
        fail(std::string(name(function)) + "() takes " + std::to_string(wanted) +
             (binary ? " arguments, not " : " argument, not ") + std::to_string(operands.size()));
    return state_->add(coded(Op::math, function, {operands.begin(), operands.end()}));
}
Value Builder::call(Function function, std::span<const Value> arguments) {
    const Routine& callee = state_->program->functions[static_cast<std::size_t>(function)];
    if (arguments.size() != callee.parameters.size())
        fail(callee.name + "() takes " + std::to_string(callee.parameters.size()) +
             " arguments, not " + std::to_string(arguments.size()));
    return state_->add(indexed(Op::call, function, arguments));
}
Value Builder::atomic(Atomic op, Parameter array, std::span<const Value> indices, Value value) {
    Expr e = indexed(Op::atomic, array, indices);
    e.code = static_cast<std::uint8_t>(op);
    e.operands.push_back(value);
    return state_->add(std::move(e));
}
Value Builder::common(std::span<const Value> values) {
    return state_->add(coded(Op::common, 0, {values.begin(), values.end()}));
}
Value Builder::random(DType dtype, std::span<const Value> seed_and_indices) {
    if (seed_and_indices.size() < 2)
        fail("random() takes a seed and one index or more, as in random(seed, i)");
    if (dtype != DType::float32 && dtype != DType::float64)
        fail("random() gives float32 or float64, not " + std::string(tack::name(dtype)) +
             "; convert its result");
    Expr e = coded(Op::random, 0, {seed_and_indices.begin(), seed_and_indices.end()});
    e.dtype = dtype;
    return state_->add(std::move(e));
}

Local Builder::local(std::string name) {
    auto& locals = state_->routine().locals;
    locals.push_back(std::move(name));
    return static_cast<Local>(locals.size() - 1);
}
Local Builder::temporary(Value value) {
    const Local local = this->local("t");
    state_->routine().temporaries.insert(static_cast<std::int32_t>(local));
    assign(local, value);
    return local;
}
void Builder::assign(Local target, Value value) {
    Stmt& s = state_->add(StmtOp::assign);
    s.index = static_cast<std::int32_t>(target);
    s.operands = {value};
}
void Builder::store(Parameter array, std::span<const Value> indices, Value value) {
    if (!state_->in_function() && !state_->inside(StmtOp::parallel))
        fail(
            "a store outside a parallel loop; write it in a loop of one pass, "
            "`for i in range(1):`");
    Stmt& s = state_->add(StmtOp::store);
    s.index = static_cast<std::int32_t>(array);
    s.operands.assign(indices.begin(), indices.end());
    s.operands.push_back(value);
}
void Builder::evaluate(Value value) { state_->add(StmtOp::evaluate).operands = {value}; }

void Builder::parallel(std::span<const Local> variables, std::span<const Range> ranges) {
    if (state_->in_function() || !state_->top().open.empty())
        fail("a parallel loop must stand at the kernel's top level");
    if (variables.empty() || variables.size() != ranges.size())
        fail("a parallel loop needs one variable per range, and at least one: got " +
             std::to_string(variables.size()) + " variables for " + std::to_string(ranges.size()) +
             " ranges");
    Stmt& s = state_->add(StmtOp::parallel);
    s.locals.assign(variables.begin(), variables.end());
    s.ranges.assign(ranges.begin(), ranges.end());
    state_->open(StmtOp::parallel, s.body);
}
void Builder::for_range(Local variable, Range range) {
    Stmt& s = state_->add(StmtOp::for_range);
    s.locals = {variable};
    s.ranges = {range};
    state_->open(StmtOp::for_range, s.body);
}
void Builder::while_loop(Value condition) {
    Stmt& s = state_->add(StmtOp::while_loop);
    s.operands = {condition};
    state_->open(StmtOp::while_loop, s.body);
}
void Builder::if_begin(Value condition) {
    Stmt& s = state_->add(StmtOp::if_else);
    s.operands = {condition};
    state_->open(StmtOp::if_else, s.body);
}
void Builder::if_else() {
    auto& open = state_->top().open;
    if (open.empty() || open.back().op != StmtOp::if_else) fail("else without an open if");
    open.pop_back();
    state_->open(StmtOp::if_else, state_->block().back().otherwise);
}
void Builder::end() {
    auto& open = state_->top().open;
    if (open.empty()) fail("end() without an open loop or branch");
    open.pop_back();
}

void Builder::break_loop() {
    for (auto o = state_->top().open.rbegin(); o != state_->top().open.rend(); ++o) {
        if (o->op == StmtOp::parallel)
            fail(
                "break cannot end a parallel loop, whose iterations are unordered; make the rest "
                "of the iteration conditional with `if`, or end it with `continue`");
        if (o->op != StmtOp::if_else) return void(state_->add(StmtOp::break_loop));
    }
    fail("break outside a loop");
}
void Builder::continue_loop() {
    for (auto o = state_->top().open.rbegin(); o != state_->top().open.rend(); ++o)
        if (o->op != StmtOp::if_else) return void(state_->add(StmtOp::continue_loop));
    fail("continue outside a loop");
}
void Builder::return_value(Value value) { return_values({&value, 1}); }
void Builder::return_values(std::span<const Value> values) {
    if (!state_->in_function())
        fail("a kernel returns nothing; store the result into an array argument");
    state_->add(StmtOp::return_value).operands.assign(values.begin(), values.end());
}
void Builder::unpack(std::span<const Local> targets, Value call) {
    Stmt& s = state_->add(StmtOp::unpack);
    s.locals.assign(targets.begin(), targets.end());
    s.operands = {call};
}
void Builder::return_nothing() {
    if (state_->in_function()) return void(state_->add(StmtOp::return_value));
    if (!state_->top().open.empty())
        fail("return inside a loop of a kernel; end the iteration with `continue`");
    state_->add(StmtOp::return_value);
}

std::shared_ptr<const Program> Builder::finish() {
    if (state_->in_function() || !state_->top().open.empty())
        fail("finish() with an open function, loop or branch");
    auto program = std::move(state_->program);
    state_.reset();
    inline_temporaries(*program);
    order_effects(*program);
    return program;
}

}  // namespace tack::ir
