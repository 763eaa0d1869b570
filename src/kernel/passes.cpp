#include "kernel/passes.hpp"

#include <algorithm>
#include <utility>

namespace tack::ir {

namespace {

/// What evaluating a value may do to memory.
struct Touch {
    bool effects = false;
    bool reads = false;

    Touch& operator|=(Touch other) {
        effects |= other.effects;
        reads |= other.reads;
        return *this;
    }
    bool any() const { return effects || reads; }
    friend bool operator==(Touch, Touch) = default;
};

/// All expressions that a statement evaluates itself, not those of its body.
template <class S, class F>
void each_value(S& s, F&& f) {
    for (auto& v : s.operands) f(v);
    for (auto& r : s.ranges) {
        f(r.start);
        f(r.stop);
        f(r.step);
    }
}

class Touches {
public:
    explicit Touches(const Program& program) : functions_(program.functions.size()) {
        // Until nothing changes: a function may call those before it and those after it.
        for (bool changed = true; changed;) {
            changed = false;
            for (std::size_t k = 0; k < functions_.size(); ++k) {
                const Touch found = of(program.functions[k], program.functions[k].body);
                changed |= found != functions_[k];
                functions_[k] = found;
            }
        }
    }

    Touch of(const Routine& routine, Value value) const {
        const Expr& e = routine[value];
        Touch out;
        if (e.op == Op::atomic) out = {true, true};
        if (e.op == Op::load) out.reads = true;
        if (e.op == Op::call) out = functions_[static_cast<std::size_t>(e.index)];
        for (const Value operand : e.operands) out |= of(routine, operand);
        return out;
    }

private:
    Touch of(const Routine& routine, const Block& block) const {
        Touch out;
        for (const Stmt& s : block) {
            if (s.op == StmtOp::store) out.effects = true;
            each_value(s, [&](Value v) { out |= of(routine, v); });
            out |= of(routine, s.body);
            out |= of(routine, s.otherwise);
        }
        return out;
    }

    std::vector<Touch> functions_;
};

class Inlining {
public:
    Inlining(Routine& routine, const Touches& touches)
        : routine_(routine), touches_(touches), uses_(routine.locals.size()) {}

    void run() {
        count(routine_.body);
        drop_unused(routine_.body);
        block(routine_.body);
    }

private:
    bool keeps(const Stmt& s) const {
        return s.op == StmtOp::assign && routine_.temporaries.contains(s.index);
    }
    int& uses(std::int32_t local) { return uses_[static_cast<std::size_t>(local)]; }
    bool effects(Value v) const { return touches_.of(routine_, v).effects; }

    void count(Block& statements) {
        for (Stmt& s : statements) {
            each_value(s, [&](Value v) { count(v, 1); });
            count(s.body);
            count(s.otherwise);
        }
    }

    void count(Value v, int change) {
        const Expr& e = routine_[v];
        if (e.op == Op::local) uses(e.index) += change;
        for (const Value operand : e.operands) count(operand, change);
    }

    /// Backwards, since what is dropped may have been the only use of what stands before.
    void drop_unused(Block& statements) {
        for (std::size_t k = statements.size(); k-- > 0;) {
            Stmt& s = statements[k];
            drop_unused(s.otherwise);
            drop_unused(s.body);
            if (!keeps(s) || uses(s.index) > 0) continue;
            if (effects(s.operands[0])) {
                s.op = StmtOp::evaluate;
                continue;
            }
            count(s.operands[0], -1);
            statements.erase(statements.begin() + static_cast<std::ptrdiff_t>(k));
        }
    }

    void block(Block& statements) {
        Block out;
        for (Stmt& s : statements) {
            // A while's condition is evaluated more than once.
            if (s.op != StmtOp::while_loop && !effects_among_operands(s))
                each_value(s, [&](Value& v) { substitute(v, out); });
            block(s.body);
            block(s.otherwise);
            if (s.op == StmtOp::while_loop) take_condition(s);
            out.push_back(std::move(s));
        }
        statements = std::move(out);
    }

    bool effects_among_operands(Stmt& s) {
        bool found = false;
        const bool one = s.op == StmtOp::assign || s.op == StmtOp::evaluate;
        each_value(s, [&](Value v) {
            if (!one) found |= effects(v);
            for (const Value operand : routine_[v].operands) found |= effects(operand);
        });
        return found;
    }

    void substitute(Value& v, Block& before) {
        Expr& e = routine_.exprs[static_cast<std::size_t>(v)];
        if (e.op != Op::local) {
            for (Value& operand : e.operands) substitute(operand, before);
            return;
        }
        if (!routine_.temporaries.contains(e.index) || uses(e.index) != 1) return;
        for (auto s = before.rbegin(); s != before.rend() && keeps(*s); ++s) {
            if (s->index == e.index) {
                if (effects(s->operands[0])) return;
                v = s->operands[0];
                before.erase(std::next(s).base());
                return;
            }
            if (effects(s->operands[0])) return;
        }
    }

    /// `while True: if not c: break` is how a condition of several statements is built.
    void take_condition(Stmt& loop) {
        if (routine_[loop.operands[0]].op != Op::literal_bool || loop.body.empty()) return;
        const Stmt& first = loop.body.front();
        if (first.op != StmtOp::if_else || first.body.size() != 1 || !first.otherwise.empty() ||
            first.body[0].op != StmtOp::break_loop)
            return;
        const Expr& leaves = routine_[first.operands[0]];
        if (leaves.op != Op::unary || static_cast<Unary>(leaves.code) != Unary::logical_not) return;
        loop.operands[0] = leaves.operands[0];
        loop.body.erase(loop.body.begin());
    }

    Routine& routine_;
    const Touches& touches_;
    std::vector<int> uses_;
};

class Ordering {
public:
    Ordering(Routine& routine, const Touches& touches) : routine_(routine), touches_(touches) {}

    void run() { block(routine_.body); }

private:
    Touch touch(Value v) const { return touches_.of(routine_, v); }
    Expr& expr(Value v) { return routine_.exprs[static_cast<std::size_t>(v)]; }

    void block(Block& statements) {
        Block out;
        for (Stmt& s : statements) {
            if (s.op == StmtOp::while_loop && needs(s.operands[0])) {
                block(s.body);
                leave_unless(s);
            } else {
                std::vector<Value*> values;
                each_value(s, [&](Value& v) { values.push_back(&v); });
                // Python evaluates what is stored before the index.
                if (s.op == StmtOp::store)
                    std::rotate(values.begin(), values.end() - 1, values.end());
                order(values, out);
                block(s.body);
                block(s.otherwise);
            }
            out.push_back(std::move(s));
        }
        statements = std::move(out);
    }

    /// Values evaluated one after the other: those whose order shows become statements of `out`.
    void order(const std::vector<Value*>& values, Block& out) {
        std::size_t hoisted = 0;
        if (conflict(values))
            for (std::size_t k = 0; k < values.size(); ++k)
                if (touch(*values[k]).effects) hoisted = k + 1;
        for (std::size_t k = 0; k < values.size(); ++k) {
            const bool own = k < hoisted && touch(*values[k]).any();
            inside(*values[k], out);
            if (own) *values[k] = use(keep(*values[k], out), *values[k]);
        }
    }

    bool conflict(const std::vector<Value*>& values) const {
        int effects = 0;
        int touching = 0;
        for (const Value* v : values) {
            effects += touch(*v).effects;
            touching += touch(*v).any();
        }
        return effects > 0 && touching > 1;
    }

    bool needs(Value v) {
        const std::vector<Value*> values = operands(v);
        const Op op = expr(v).op;
        const bool lazy = op == Op::logical_and || op == Op::logical_or || op == Op::select;
        return (!lazy && conflict(values)) ||
               std::any_of(values.begin(), values.end(), [&](Value* o) { return needs(*o); });
    }

    std::vector<Value*> operands(Value v) {
        std::vector<Value*> out;
        for (Value& operand : expr(v).operands) out.push_back(&operand);
        return out;
    }

    void inside(Value& v, Block& out) {
        if (!needs(v)) return;
        const Expr e = expr(v);
        const bool lazy = e.op == Op::logical_and || e.op == Op::logical_or || e.op == Op::select;
        if (!lazy) {
            // By copies: what is hoisted adds expressions.
            Expr changed = e;
            std::vector<Value*> values;
            for (Value& operand : changed.operands) values.push_back(&operand);
            order(values, out);
            expr(v) = std::move(changed);
            return;
        }
        Value condition = e.operands[0];
        inside(condition, out);
        if (std::none_of(e.operands.begin() + 1, e.operands.end(),
                         [&](Value o) { return needs(o); })) {
            expr(v).operands[0] = condition;
            return;
        }
        if (e.op == Op::select) {
            const Local result = new_temporary();
            Stmt& choice = branch(condition, out, e.where);
            assign(result, e.operands[1], choice.body);
            assign(result, e.operands[2], choice.otherwise);
            v = use(result, v);
            return;
        }
        const Local result = keep(truth(condition), out);
        Value go_on = use(result, v);
        if (e.op == Op::logical_or) go_on = negated(go_on);
        Stmt& choice = branch(go_on, out, e.where);
        assign(result, truth(e.operands[1]), choice.body);
        v = use(result, v);
    }

    /// Makes the condition part of the body, where it can be several statements.
    void leave_unless(Stmt& loop) {
        Block body;
        Value condition = loop.operands[0];
        inside(condition, body);
        Stmt& leave = branch(negated(condition), body, loop.where);
        leave.body.emplace_back().op = StmtOp::break_loop;
        std::move(loop.body.begin(), loop.body.end(), std::back_inserter(body));
        loop.body = std::move(body);
        loop.operands[0] = add({.op = Op::literal_bool, .integer = 1, .where = loop.where});
    }

    Value add(Expr&& e) {
        routine_.exprs.push_back(std::move(e));
        return static_cast<Value>(routine_.exprs.size() - 1);
    }
    Value use(Local local, Value instead) {
        return add({.op = Op::local,
                    .index = static_cast<std::int32_t>(local),
                    .where = expr(instead).where});
    }
    Value negated(Value v) {
        return add({.op = Op::unary,
                    .code = static_cast<std::uint8_t>(Unary::logical_not),
                    .operands = {v},
                    .where = expr(v).where});
    }
    Value truth(Value v) {
        return add(
            {.op = Op::cast, .dtype = DType::bool_, .operands = {v}, .where = expr(v).where});
    }

    Local new_temporary() {
        const auto index = static_cast<std::int32_t>(routine_.locals.size());
        routine_.locals.push_back("t");
        routine_.temporaries.insert(index);
        return static_cast<Local>(index);
    }
    Local keep(Value v, Block& out) {
        const Local local = new_temporary();
        put(local, v, out);
        return local;
    }
    void assign(Local local, Value v, Block& out) {
        inside(v, out);
        put(local, v, out);
    }
    void put(Local local, Value v, Block& out) {
        Stmt& s = out.emplace_back();
        s.op = StmtOp::assign;
        s.index = static_cast<std::int32_t>(local);
        s.operands = {v};
        s.where = expr(v).where;
    }
    static Stmt& branch(Value condition, Block& out, Location where) {
        Stmt& s = out.emplace_back();
        s.op = StmtOp::if_else;
        s.operands = {condition};
        s.where = where;
        return s;
    }

    Routine& routine_;
    const Touches& touches_;
};

}  // namespace

void inline_temporaries(Program& program) {
    const Touches touches(program);
    if (!program.kernel.temporaries.empty()) Inlining(program.kernel, touches).run();
    for (Routine& function : program.functions)
        if (!function.temporaries.empty()) Inlining(function, touches).run();
}

void order_effects(Program& program) {
    const Touches touches(program);
    Ordering(program.kernel, touches).run();
    for (Routine& function : program.functions) Ordering(function, touches).run();
}

}  // namespace tack::ir
