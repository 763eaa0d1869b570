#include "codegen/variants.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace tack::codegen {

namespace {

using ir::Block;
using ir::Expr;
using ir::Op;
using ir::Stmt;
using ir::StmtOp;
using ir::Value;

template <class Visit>
void each_expr(const ir::Routine& routine, Value value, const Visit& visit) {
    visit(routine[value]);
    for (const Value operand : routine[value].operands) each_expr(routine, operand, visit);
}

template <class Visit>
void each_stmt(const Block& block, const Visit& visit) {
    for (const Stmt& s : block) {
        visit(s);
        each_stmt(s.body, visit);
        each_stmt(s.otherwise, visit);
    }
}

template <class Visit>
void each_expr(const ir::Routine& routine, const Block& block, const Visit& visit) {
    each_stmt(block, [&](const Stmt& s) {
        for (const Value value : s.operands) each_expr(routine, value, visit);
        for (const ir::Range& r : s.ranges)
            for (const Value bound : {r.start, r.stop, r.step}) each_expr(routine, bound, visit);
    });
}

/// Straight-line statements, in which a local that is assigned once stands for its value.
class Values {
public:
    Values(const ir::Routine& routine, const Block& block) : routine_(routine) {
        std::map<std::int32_t, int> times;
        each_stmt(routine.body, [&](const Stmt& s) {
            if (s.op == StmtOp::assign) ++times[s.index];
            for (const ir::Local local : s.locals) times[static_cast<std::int32_t>(local)] += 2;
        });
        for (const Stmt& s : block) {
            if (s.op != StmtOp::assign) continue;
            changing_.insert(s.index);
            if (times[s.index] == 1) assigned_[s.index] = &s;
        }
    }

    void add_changing(std::int32_t local) { changing_.insert(local); }

    /// Whether it is the variable itself, or that plus or minus a literal.
    bool is_variable(Value value, std::int32_t variable) const {
        const Expr& e = resolved(value);
        if (e.op == Op::local) return e.index == variable;
        const auto op = static_cast<ir::Binary>(e.code);
        return e.op == Op::binary && (op == ir::Binary::add || op == ir::Binary::subtract) &&
               is_variable(e.operands[0], variable) &&
               resolved(e.operands[1]).op == Op::literal_int;
    }
    /// Whether it is the same in all passes; a value that is read from memory counts as not.
    bool is_constant(Value value) const {
        const Expr& e = resolved(value);
        if (e.op == Op::load || e.op == Op::atomic || e.op == Op::call) return false;
        if (e.op == Op::local) return !changing_.contains(e.index);
        return std::all_of(e.operands.begin(), e.operands.end(),
                           [&](Value operand) { return is_constant(operand); });
    }
    /// The assignments that the value depends on.
    void collect(Value value, std::set<const Stmt*>& into) const {
        each_expr(routine_, value, [&](const Expr& e) {
            const auto found = assigned_.find(e.index);
            if (e.op != Op::local || found == assigned_.end()) return;
            into.insert(found->second);
            collect(found->second->operands[0], into);
        });
    }

private:
    const Expr& resolved(Value value) const {
        const Expr& e = routine_[value];
        if (e.op != Op::local) return e;
        const auto found = assigned_.find(e.index);
        return found == assigned_.end() ? e : resolved(found->second->operands[0]);
    }

    const ir::Routine& routine_;
    std::set<std::int32_t> changing_;
    std::map<std::int32_t, const Stmt*> assigned_;
};

}  // namespace

StreamedStore streamed_store(const kernel::Specialization& spec, const Stmt& loop) {
    const ir::Routine& routine = spec.program->kernel;
    const auto inner = static_cast<std::int32_t>(loop.locals.back());
    const Expr& step = routine[loop.ranges.back().step];
    if (!spec.large || !spec.no_alias || spec.options.check_bounds || step.op != Op::literal_int ||
        step.integer != 1)
        return {};
    std::map<std::int32_t, int> stores;
    for (const Stmt& s : loop.body) {
        const bool assigns = s.op == StmtOp::assign && s.index != inner;
        if (s.op == StmtOp::store)
            ++stores[s.index];
        else if (!assigns && s.op != StmtOp::evaluate)
            return {};
    }
    bool calls = false;
    each_expr(routine, loop.body, [&](const Expr& e) { calls |= e.op == Op::call; });
    if (calls) return {};

    Values values(routine, loop.body);
    values.add_changing(inner);
    for (const Stmt& s : loop.body) {
        if (s.op != StmtOp::store || stores[s.index] != 1 || s.operands.size() < 2 ||
            spec.access[static_cast<std::size_t>(s.index)].loads)
            continue;
        const auto last = s.operands.end() - 2;  // index; the value follows
        if (!values.is_variable(*last, inner) ||
            !std::all_of(s.operands.begin(), last, [&](Value v) { return values.is_constant(v); }))
            continue;
        std::set<const Stmt*> needed;
        for (auto index = s.operands.begin(); index <= last; ++index)
            values.collect(*index, needed);
        StreamedStore found{&s, {}};
        for (const Stmt& each : loop.body)
            if (needed.contains(&each)) found.before.push_back(each);
        return found;
    }
    return {};
}

std::int32_t accumulated_array(const kernel::Specialization& spec, const Stmt& loop) {
    const ir::Routine& routine = spec.program->kernel;
    if (!spec.no_alias || spec.options.check_bounds) return -1;

    std::set<std::int32_t> read;        // locals
    std::set<const Expr*> unused;       // atomics whose old value goes nowhere
    std::set<std::int32_t> candidates;  // arrays of those
    std::set<std::int32_t> excluded;
    const auto mark = [&](const Expr& e) {
        if (e.op == Op::local) read.insert(e.index);
    };
    each_expr(routine, routine.body, mark);
    each_stmt(loop.body, [&](const Stmt& s) {
        if (s.op == StmtOp::store) excluded.insert(s.index);
        if (s.op != StmtOp::evaluate && (s.op != StmtOp::assign || read.contains(s.index))) return;
        const Expr& e = routine[s.operands[0]];
        if (e.op == Op::atomic && static_cast<ir::Atomic>(e.code) == ir::Atomic::add) {
            unused.insert(&e);
            candidates.insert(e.index);
        }
    });
    bool calls = false;
    each_expr(routine, loop.body, [&](const Expr& e) {
        calls |= e.op == Op::call;
        if (e.op == Op::load || (e.op == Op::atomic && !unused.contains(&e)))
            excluded.insert(e.index);
    });
    if (calls) return -1;
    for (const std::int32_t array : candidates)
        if (!excluded.contains(array)) return array;
    return -1;
}

}  // namespace tack::codegen
