#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "codegen/emitter.hpp"
#include "codegen/gpu_source.hpp"

namespace tack::codegen {

namespace {

using ir::Expr;
using ir::Op;
using ir::Stmt;
using ir::StmtOp;
using kernel::Instance;

/// Nanoseconds of a pass by the emitter's estimate; see DeviceSource::loop().
constexpr double cheap_pass = 0.3;
constexpr int passes_side_by_side = 4;

/// What statements do besides computing scalars, those of the functions they call included.
class Doings {
public:
    explicit Doings(const kernel::Specialization& spec) : spec_(spec) {}

    bool stores = false;
    bool loops = false;
    std::set<std::int32_t> loaded;  // parameters of the kernel

    void of(const Instance& in, std::span<const Stmt> block) {
        for (const Stmt& s : block) {
            stores |= s.op == StmtOp::store;
            loops |= s.op == StmtOp::for_range || s.op == StmtOp::while_loop;
            for (const ir::Value v : s.operands) of(in, v);
            ranges(in, s);
            of(in, s.body);
            of(in, s.otherwise);
        }
    }

    void ranges(const Instance& in, const Stmt& loop) {
        for (const ir::Range& r : loop.ranges)
            for (const ir::Value v : {r.start, r.stop, r.step}) of(in, v);
    }

private:
    void of(const Instance& in, ir::Value v) {
        const Expr& e = spec_.routine(in)[v];
        stores |= e.op == Op::atomic;
        if (e.op == Op::load || e.op == Op::atomic)
            loaded.insert(in.parameters[static_cast<std::size_t>(e.index)].array);
        if (e.op == Op::call) {
            const auto callee = static_cast<std::size_t>(in.callees[static_cast<std::size_t>(v)]);
            of(spec_.instances[callee], spec_.routine(spec_.instances[callee]).body);
        }
        for (const ir::Value operand : e.operands) of(in, operand);
    }

    const kernel::Specialization& spec_;
};

class DeviceSource {
public:
    DeviceSource(const kernel::Specialization& spec, const Target& target)
        : spec_(spec),
          kernel_(spec.instances.front()),
          routine_(spec.program->kernel),
          helpers_(target),
          count_(target.narrow ? "u32" : "u64") {
        std::int32_t slot = 0;
        for (const auto& p : kernel_.parameters) {
            slots_.push_back(slot);
            slot += p.is_array ? 1 + p.ndim : 1;
        }
        if (computes_float16()) helpers_.half();
    }

    GpuSource write() {
        std::span<const Stmt> body(routine_.body);
        // At the top level a return stands alone, and ends the kernel.
        const auto ends = [](const Stmt& s) { return s.op == StmtOp::return_value; };
        body = body.first(
            static_cast<std::size_t>(std::find_if(body.begin(), body.end(), ends) - body.begin()));
        std::size_t end = 0;  // of the last loop
        Doings outside(spec_);
        for (std::size_t at = 0; at < body.size(); ++at) {
            if (body[at].op != StmtOp::parallel) continue;
            outside.of(kernel_, body.subspan(end, at - end));
            outside.ranges(kernel_, body[at]);
            end = at + 1;
        }
        Doings after(spec_);
        after.of(kernel_, body.subspan(end));
        const bool after_matters = after.stores || (checks() && !after.loaded.empty());
        if (after_matters) outside.of(kernel_, body.subspan(end));
        keeps_ = must_run_once(outside);

        std::size_t from = 0;
        for (std::size_t at = 0; at < end; ++at) {
            if (body[at].op != StmtOp::parallel) continue;
            const Stmt& s = body[at];
            const std::string id = std::to_string(loops_++);
            Doings bounds(spec_);
            bounds.ranges(kernel_, s);
            const bool kept = keeps_ && (bounds.stores || !bounds.loaded.empty());
            if (keeps_ && (at > from || kept))
                once("before" + id, body.subspan(from, at - from), kept ? &s : nullptr, id);
            loop(s, keeps_ ? std::span<const Stmt>() : body.first(at), id, kept);
            from = at + 1;
        }
        if (after_matters) once("after", keeps_ ? body.subspan(end) : body, nullptr, {});

        const std::string functions = device_functions();
        source_.text = helpers_.text() + functions;
        if (!fields_.empty()) source_.text += "\nstruct locals {\n" + fields_ + "};\n";
        source_.text += entries_;
        source_.locals_bytes = (locals_bytes_ + 7) / 8 * 8;
        return std::move(source_);
    }

private:
    bool checks() const { return spec_.options.check_bounds; }

    bool computes_float16() const {
        const auto half = [](const kernel::Type& t) { return t.dtype == DType::float16; };
        return std::any_of(spec_.instances.begin(), spec_.instances.end(), [&](const Instance& i) {
            return std::any_of(i.exprs.begin(), i.exprs.end(), half) ||
                   std::any_of(i.locals.begin(), i.locals.end(), half) ||
                   std::any_of(i.parameters.begin(), i.parameters.end(),
                               [&](const auto& p) { return half(p.type); });
        });
    }

    /// Whether the statements outside loops are for one thread to run: where each thread that ran
    /// them again would store again, find what a loop has stored since, or take long.
    bool must_run_once(const Doings& outside) const {
        const auto stored = [](const kernel::Access& a) { return a.stores; };
        const bool any_stored = std::any_of(spec_.access.begin(), spec_.access.end(), stored);
        return outside.stores || outside.loops ||
               std::any_of(outside.loaded.begin(), outside.loaded.end(), [&](std::int32_t array) {
                   return spec_.no_alias ? stored(spec_.access[static_cast<std::size_t>(array)])
                                         : any_stored;
               });
    }

    DType dtype_of_local(std::int32_t local) const {
        return kernel_.locals[static_cast<std::size_t>(local)].dtype;
    }
    /// "i64 v0_n", without a value.
    std::string declarator(const Emitter& e, std::int32_t local) const {
        return std::string(type_name(dtype_of_local(local))) + " " + e.local_name(local);
    }
    bool is_literal(ir::Value v, std::int64_t value) const {
        const Expr& e = routine_[v];
        return e.op == Op::literal_int && e.integer == value;
    }

    // what is kept in device memory

    void keep(const std::string& declared, DType d) {
        const auto size = static_cast<std::int64_t>(itemsize(d));
        locals_bytes_ = (locals_bytes_ + size - 1) / size * size + size;
        fields_ += "    " + declared + ";\n";
    }

    /// An entry for one thread: statements, and a loop's bounds where `bounds` is that loop.
    void once(const std::string& what, std::span<const Stmt> block, const Stmt* bounds,
              const std::string& id) {
        Emitter e(spec_, kernel_, helpers_);
        const std::string statements = e.statements(block, 1);
        std::string after;
        if (bounds) {
            after = bounds_of(e, *bounds, id);
            for (std::size_t axis = 0; axis < bounds->ranges.size(); ++axis)
                each_bound(*bounds, id, axis, [&](const std::string& name, DType d) {
                    keep((d == DType::int64 ? "i64 " : count_ + " ") + name, d);
                    after += "    locals->" + name + " = " + name + ";\n";
                });
        }
        std::string text;
        for (const std::int32_t local : e.uses.locals)
            text +=
                "    " +
                (kept_.contains(local) ? declarator(e, local) + " = locals->" + e.local_name(local)
                                       : e.declared(local)) +
                ";\n";
        if (keeps_) {
            for (const std::int32_t local : e.uses.locals) {
                if (kept_.insert(local).second) keep(declarator(e, local), dtype_of_local(local));
                after += "    locals->" + e.local_name(local) + " = " + e.local_name(local) + ";\n";
            }
        }
        entry(what, {&e}, text + statements + after, nullptr);
    }

    // loops

    /// Calls f(name, dtype) for each of the values that a loop needs at run time.
    template <class F>
    void each_bound(const Stmt& s, const std::string& id, std::size_t axis, F&& f) const {
        const std::string name = "r" + id + "_" + std::to_string(axis);
        if (!is_literal(s.ranges[axis].start, 0)) f(name + "_start", DType::int64);
        if (!is_literal(s.ranges[axis].step, 1)) f(name + "_step", DType::int64);
        f(name + "_n", count_ == "u32" ? DType::uint32 : DType::uint64);
    }

    /// Declares a loop's start, step and number of passes on each axis.
    std::string bounds_of(Emitter& e, const Stmt& s, const std::string& id) {
        std::string out;
        for (std::size_t axis = 0; axis < s.ranges.size(); ++axis) {
            const ir::Range& r = s.ranges[axis];
            const std::string name = "r" + id + "_" + std::to_string(axis);
            std::string start = "0ll";
            std::string step = "1ll";
            if (!is_literal(r.start, 0)) {
                out += "    const i64 " + name + "_start = " + e.as_index(r.start) + ";\n";
                start = name + "_start";
            }
            if (!is_literal(r.step, 1)) {
                out += "    const i64 " + name + "_step = " + e.as_index(r.step) + ";\n";
                step = name + "_step";
            }
            out += "    const " + count_ + " " + name + "_n = (" + count_ + ")" + helpers_.trips() +
                   "(" + start + ", " + e.as_index(r.stop) + ", " + step + ");\n";
        }
        return out;
    }

    /// The declaration of a loop's variable from the counter of its axis.
    std::string variable(const Emitter& body, const Stmt& s, const std::string& id,
                         std::size_t axis) const {
        const std::string name = "r" + id + "_" + std::to_string(axis);
        const std::string counter = "k" + std::to_string(axis);
        const bool from_zero = is_literal(s.ranges[axis].start, 0);
        std::string value = "(i64)" + counter;
        if (!is_literal(s.ranges[axis].step, 1))
            value = "(i64)(" + (from_zero ? "" : "(u64)" + name + "_start + ") + "(u64)" + counter +
                    " * (u64)" + name + "_step)";
        else if (!from_zero)
            value = name + "_start + " + value;
        return declarator(body, static_cast<std::int32_t>(s.locals[axis])) + " = " + value + ";\n";
    }

    void loop(const Stmt& s, std::span<const Stmt> before, const std::string& id, bool kept) {
        const std::size_t axes = s.locals.size();
        Emitter outer(spec_, kernel_, helpers_);
        std::string text = outer.statements(before, 1);
        std::string bounds;
        if (kept) {
            for (std::size_t axis = 0; axis < axes; ++axis)
                each_bound(s, id, axis, [&](const std::string& name, DType d) {
                    bounds += "    const " + (d == DType::int64 ? "i64" : count_) + " " + name +
                              " = locals->" + name + ";\n";
                });
        } else {
            bounds = bounds_of(outer, s, id);
        }
        Emitter body(spec_, kernel_, helpers_);
        const std::string inside = body.statements(s.body, 2);

        std::set<std::int32_t> outside = outer.uses.locals;
        std::string own;  // of one pass
        for (const std::int32_t local : body.uses.locals) {
            if (std::count(s.locals.begin(), s.locals.end(), ir::Local{local})) continue;
            if (kept_.contains(local))
                outside.insert(local);
            else if (!outside.contains(local))
                own += "        " + body.declared(local) + ";\n";
        }
        std::string values;
        for (const std::int32_t local : outside)
            values += "    " +
                      (keeps_ ? "const " + declarator(outer, local) + " = locals->" +
                                    outer.local_name(local)
                              : outer.declared(local)) +
                      ";\n";
        text = values + text + bounds;

        const std::string k = axes == 1 ? "k0" : "k";
        std::string pass;
        std::string rest = k;
        for (std::size_t axis = axes - 1; axis > 0; --axis) {
            const std::string n = "r" + id + "_" + std::to_string(axis) + "_n";
            const std::string next = axis > 1 ? "rest" + std::to_string(axis) : "k0";
            pass += "        const " + count_ + " " + next + " = " + rest + " / " + n + ", k" +
                    std::to_string(axis) + " = " + rest + " - " + next + " * " + n + ";\n";
            rest = next;
        }
        for (std::size_t axis = 0; axis < axes; ++axis)
            if (body.uses.locals.contains(static_cast<std::int32_t>(s.locals[axis])))
                pass += "        " + variable(body, s, id, axis);
        pass += own + inside + "    }\n";

        std::string total;
        for (std::size_t axis = 0; axis < axes; ++axis)
            total += (axis ? " * r" : "r") + id + "_" + std::to_string(axis) + "_n";
        const Target& target = helpers_.target();
        text += "    const " + count_ + " total = " + total + ", threads = (" + count_ + ")" +
                std::string(target.threads) + ";\n";
        const std::string thread = "(" + count_ + ")" + std::string(target.thread);
        const auto stride = [&](const std::string& counter, const std::string& from) {
            return "for (" + count_ + " " + counter + " = " + from + "; " + counter + " < total; " +
                   counter + " += threads) {\n";
        };
        // Passes that wait for memory and do little else run side by side, so that the loads of
        // several are under way at once. Others would take the registers of as many passes.
        Doings doings(spec_);
        doings.of(kernel_, s.body);
        const bool side_by_side = spec_.no_alias && !doings.loops && body.cost < cheap_pass;
        if (side_by_side) {
            const std::string n = std::to_string(passes_side_by_side);
            text += "    for (" + count_ + " first = " + thread + "; first < total; first += " + n +
                    " * threads) {\n        if (total - first > " +
                    std::to_string(passes_side_by_side - 1) +
                    " * threads) {\n            #pragma unroll\n            for (u32 pass = 0; "
                    "pass < " +
                    n + "; ++pass) {\n                const " + count_ + " " + k +
                    " = first + pass * threads;\n" + indented(pass) +
                    "        } else {\n            " + stride(k, "first") + indented(pass) +
                    "        }\n    }\n";
        } else {
            text += "    " + stride(k, thread) + pass;
        }
        entry("loop" + id, {&outer, &body}, text, &s, side_by_side ? passes_side_by_side : 1);
    }

    /// Two levels deeper.
    static std::string indented(const std::string& lines) {
        std::string out;
        for (std::size_t at = 0; at < lines.size();) {
            const std::size_t end = lines.find('\n', at) + 1;
            out += "        " + lines.substr(at, end - at);
            at = end;
        }
        return out;
    }

    // functions

    /// Adds an entry of what the emitters wrote, with the parameters that they used.
    void entry(const std::string& what, std::initializer_list<const Emitter*> emitters,
               const std::string& text, const Stmt* loop, int passes_each = 1) {
        Emitter::Uses uses;
        for (const Emitter* e : emitters) {
            uses.parameters.insert(e->uses.parameters.begin(), e->uses.parameters.end());
            uses.extents.insert(e->uses.extents.begin(), e->uses.extents.end());
            callees_.insert(e->uses.callees.begin(), e->uses.callees.end());
        }
        const Emitter& e = **emitters.begin();
        const std::string space(helpers_.target().array_space);
        using Kind = GpuParameter::Kind;
        GpuEntry out{.name = what + e.entry_suffix(),
                     .parameters = {},
                     .loop = loop,
                     .passes_each = passes_each};
        std::string declared;
        const auto add = [&](GpuParameter p, const std::string& declaration) {
            declared += (out.parameters.empty() ? "" : ", ") + declaration;
            out.parameters.push_back(p);
        };
        for (std::size_t p = 0; p < kernel_.parameters.size(); ++p) {
            const kernel::ParameterType& parameter = kernel_.parameters[p];
            const auto k = static_cast<std::int32_t>(p);
            const DType d = parameter.type.dtype;
            if (uses.parameters.contains(k) && parameter.is_array)
                add({Kind::array, slots_[p]}, e.pointer_type(parameter) + e.parameter_name(k));
            else if (uses.parameters.contains(k))
                add({Kind::value, slots_[p], static_cast<std::int32_t>(itemsize(d))},
                    std::string(type_name(d)) + " " + e.parameter_name(k));
            for (int axis = 0; axis < parameter.ndim; ++axis)
                if (uses.extents.contains({k, axis}))
                    add({Kind::value, slots_[p] + 1 + axis}, "i64 " + e.extent_name(k, axis));
        }
        if (checks()) add({Kind::fault}, space + "struct fault *fault");
        if (text.find("locals->") != std::string::npos)
            add({Kind::locals}, space + "struct locals *locals");
        entries_ += "\n" + std::string(helpers_.target().entry) + " " + out.name + "(" + declared +
                    ") {\n" + text + "}\n";
        source_.entries.push_back(std::move(out));
    }

    /// The device functions that the entries call, directly or through others.
    std::string device_functions() {
        std::string declared = checks() ? "struct fault;\n" : "";
        std::string defined;
        std::set<std::int32_t> written;
        for (std::vector<std::int32_t> wanted(callees_.begin(), callees_.end()); !wanted.empty();) {
            const std::int32_t index = wanted.back();
            wanted.pop_back();
            if (!written.insert(index).second) continue;
            Emitter e(spec_, spec_.instances[static_cast<std::size_t>(index)], helpers_);
            declared += e.result_struct(index) + e.signature(index) + ";\n";
            defined += "\n" + e.function(index);
            wanted.insert(wanted.end(), e.uses.callees.begin(), e.uses.callees.end());
        }
        return (declared.empty() ? "" : "\n" + declared) + defined;
    }

    const kernel::Specialization& spec_;
    const Instance& kernel_;
    const ir::Routine& routine_;
    Helpers helpers_;
    const std::string count_;          // the type of counters
    std::vector<std::int32_t> slots_;  // of each parameter

    bool keeps_ = false;           // what stands outside loops is run once and kept
    std::set<std::int32_t> kept_;  // locals
    std::string fields_;           // of struct locals
    std::int64_t locals_bytes_ = 0;

    GpuSource source_;
    std::string entries_;
    std::set<std::int32_t> callees_;
    int loops_ = 0;
};

}  // namespace

GpuSource emit_cuda(const kernel::Specialization& spec, IndexWidth width) {
    Target target = cuda_target;
    target.narrow = width == IndexWidth::narrow;
    return DeviceSource(spec, target).write();
}

}  // namespace tack::codegen
