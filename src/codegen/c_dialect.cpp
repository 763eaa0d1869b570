#include "codegen/c_dialect.hpp"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "codegen/emitter.hpp"

namespace tack::codegen {

namespace {

using ir::Stmt;
using ir::StmtOp;
using kernel::Instance;

class HostSource {
public:
    explicit HostSource(const kernel::Specialization& spec)
        : spec_(spec), kernel_(spec.instances.front()), routine_(spec.program->kernel) {
        std::int32_t slot = 0;
        for (const auto& p : kernel_.parameters) {
            slots_.push_back(slot);
            slot += p.is_array ? 1 + p.ndim : 1;
        }
    }

    std::string write() {
        Emitter entry(spec_, kernel_, helpers_);
        const std::string entry_body = top_level(entry);
        std::string out = preamble();
        out +=
            "\nstruct runtime {\n"
            "    void (*parallel)(const struct runtime *, void (*)(const void *, i64, i64), "
            "const void *, i64, f64);\n" +
            std::string(checks() ? "    struct fault *fault;\n};\n" : "};\n");
        out += "\nstruct frame {\n    const u64 *slots;\n" +
               std::string(checks() ? "    struct fault *fault;\n" : "") + frame_ + "};\n";
        out += regions_;
        out += "\nvoid " + std::string(host_kernel_symbol) +
               "(const u64 *slots, const struct runtime *runtime) {\n"
               "    struct frame frame;\n    frame.slots = slots;\n    (void)runtime;\n";
        if (checks())
            out +=
                "    struct fault *const fault = frame.fault = runtime->fault;\n"
                "    (void)fault;\n";
        out += declarations(entry, "slots");
        for (const std::int32_t local : outside_)
            out += "    " + type_of_local(local) + " " + entry.local_name(local) + " = 0;\n";
        return out + entry_body + "}\n";
    }

private:
    bool checks() const { return spec_.options.check_bounds; }

    std::string type_of_local(std::int32_t local) const {
        return std::string(type_name(kernel_.locals[static_cast<std::size_t>(local)].dtype));
    }

    std::string top_level(Emitter& entry) {
        std::string out;
        for (const Stmt& s : routine_.body) {
            if (s.op == StmtOp::parallel) {
                out += region(entry, s);
            } else {
                out += entry.statements({&s, 1}, 1);
                outside_ = entry.uses.locals;
            }
        }
        return out;
    }

    /// Values that stand in the slots, as constants.
    std::string declarations(const Emitter& e, const std::string& slots) const {
        std::string out;
        for (const std::int32_t k : e.uses.parameters) {
            const auto& p = kernel_.parameters[static_cast<std::size_t>(k)];
            const std::string slot = std::to_string(slots_[static_cast<std::size_t>(k)]);
            if (p.is_array) {
                const std::string type = e.pointer_type(p);
                out += "    " + type + e.parameter_name(k) + " = (" + type + ")" + slots + "[" +
                       slot + "];\n";
            } else {
                const std::string type(type_name(p.type.dtype));
                out += "    const " + type + " " + e.parameter_name(k) + " = *(const " + type +
                       " *)(" + slots + " + " + slot + ");\n";
            }
        }
        return out + extents(e, slots);
    }

    std::string extents(const Emitter& e, const std::string& slots) const {
        std::string out;
        for (const auto& [k, axis] : e.uses.extents)
            out += "    const i64 " + e.extent_name(k, axis) + " = (i64)" + slots + "[" +
                   std::to_string(slots_[static_cast<std::size_t>(k)] + 1 + axis) + "];\n";
        return out;
    }

    /// Writes a parallel loop's functions and gives the statements that run it.
    std::string region(Emitter& entry, const Stmt& s) {
        const std::string id = std::to_string(region_count_++);
        const std::size_t axes = s.locals.size();
        Emitter body(spec_, kernel_, helpers_);
        const std::string inside = body.statements(s.body, axes == 1 ? 2 : 3);

        // where the loop is entered
        std::string run = "    {\n        i64 total = 1;\n";
        std::vector<std::string> variables;
        for (std::size_t axis = 0; axis < axes; ++axis) {
            const ir::Range& r = s.ranges[axis];
            const std::string name = "r" + id + "_" + std::to_string(axis);
            frame_ += "    i64 " + name + "_start, " + name + "_step, " + name + "_n;\n";
            run += "        frame." + name + "_start = " + entry.as_index(r.start) + ";\n";
            run += "        frame." + name + "_step = " + entry.as_index(r.step) + ";\n";
            run += "        frame." + name + "_n = " + helpers_.trips() + "(frame." + name +
                   "_start, " + entry.as_index(r.stop) + ", frame." + name + "_step);\n";
            run += "        total *= frame." + name + "_n;\n";
            variables.push_back(loop_variable(body, s, axis, name));
        }
        for (const std::int32_t local : outside_) {
            if (!body.uses.locals.contains(local)) continue;
            frame_ +=
                "    " + type_of_local(local) + " r" + id + "_" + body.local_name(local) + ";\n";
            run += "        frame.r" + id + "_" + body.local_name(local) + " = " +
                   body.local_name(local) + ";\n";
        }
        const double cost = std::max(body.cost, 0.01);
        char text[160];
        std::snprintf(text, sizeof text,
                      "        if (total > %lldll) runtime->parallel(runtime, enter_%s, &frame, "
                      "total, %.3g);\n",
                      static_cast<long long>(std::max(1.0, serial_nanoseconds / cost)), id.c_str(),
                      cost);
        run += text;
        run += "        else if (total > 0) enter_" + id + "(&frame, 0, total);\n    }\n";

        regions_ += loop(id, s, body, inside, variables);
        return run;
    }

    /// The declaration of a parallel loop's variable from its counter, and of the range's bounds
    /// where they are not literals.
    std::string loop_variable(Emitter& body, const Stmt& s, std::size_t axis,
                              const std::string& name) {
        const auto local = static_cast<std::int32_t>(s.locals[axis]);
        const ir::Expr& start = routine_[s.ranges[axis].start];
        const ir::Expr& step = routine_[s.ranges[axis].step];
        std::string value = "k" + std::to_string(axis);
        if (step.op != ir::Op::literal_int || step.integer != 1)
            value += " * frame->" + name + "_step";
        if (start.op != ir::Op::literal_int || start.integer != 0)
            value = "frame->" + name + "_start + " + value;
        body.uses.locals.erase(local);
        return type_of_local(local) + " " + body.local_name(local) + " = " + value + ";\n";
    }

    std::string loop(const std::string& id, const Stmt& s, const Emitter& body,
                     const std::string& inside, const std::vector<std::string>& variables) const {
        // Pointers are parameters, for only there does `restrict` say all it can.
        std::string parameters;
        std::string arguments;
        std::string scalars;
        for (const std::int32_t k : body.uses.parameters) {
            const auto& p = kernel_.parameters[static_cast<std::size_t>(k)];
            const std::string slot = std::to_string(slots_[static_cast<std::size_t>(k)]);
            if (p.is_array) {
                const std::string type = body.pointer_type(p);
                parameters += type + body.parameter_name(k) + ", ";
                arguments += "(" + type + ")frame->slots[" + slot + "], ";
            } else {
                const std::string type(type_name(p.type.dtype));
                scalars += "    const " + type + " " + body.parameter_name(k) + " = *(const " +
                           type + " *)(frame->slots + " + slot + ");\n";
            }
        }
        std::string out = "\nstatic __attribute__((noinline)) void region_" + id +
                          "(const struct frame *restrict frame, " + parameters +
                          "i64 begin, i64 end) {\n" + scalars + extents(body, "frame->slots");
        if (checks()) out += "    struct fault *const fault = frame->fault;\n    (void)fault;\n";
        std::string locals;  // of one iteration
        for (const std::int32_t local : body.uses.locals) {
            const std::string declared = type_of_local(local) + " " + body.local_name(local);
            if (outside_.contains(local))
                out += "    const " + declared + " = frame->r" + id + "_" + body.local_name(local) +
                       ";\n";
            else
                locals += declared + " = 0;\n";
        }
        out += s.locals.size() == 1 ? flat(variables, locals, inside)
                                    : rows(id, variables, locals, inside);
        out += "}\nstatic void enter_" + id +
               "(const void *of, i64 begin, i64 end) {\n    const struct frame *frame = of;\n"
               "    region_" +
               id + "(frame, " + arguments + "begin, end);\n}\n";
        return out;
    }

    static std::string indented(const std::string& lines, int depth) {
        std::string out;
        for (std::size_t at = 0; at < lines.size();) {
            const std::size_t end = lines.find('\n', at) + 1;
            out.append(static_cast<std::size_t>(depth) * 4, ' ');
            out += lines.substr(at, end - at);
            at = end;
        }
        return out;
    }

    static std::string flat(const std::vector<std::string>& variables, const std::string& locals,
                            const std::string& inside) {
        return "    for (i64 k0 = begin; k0 < end; ++k0) {\n" + indented(variables[0], 2) +
               indented(locals, 2) + inside + "    }\n";
    }

    /// Any part of the flattened iterations, walked row by row so that the innermost loop is plain.
    static std::string rows(const std::string& id, const std::vector<std::string>& variables,
                            const std::string& locals, const std::string& inside) {
        const auto extent = [&](std::size_t axis) {
            return "frame->r" + id + "_" + std::to_string(axis) + "_n";
        };
        const auto counter = [](std::size_t axis) { return "k" + std::to_string(axis); };
        const std::size_t last = variables.size() - 1;
        std::string out = "    i64 rest = begin";
        for (std::size_t axis = last; axis > 0; --axis)
            out += ";\n    i64 " + counter(axis) + "_at = rest % " + extent(axis) +
                   "; rest /= " + extent(axis);
        out += ";\n    i64 k0_at = rest;\n";
        out += "    while (begin < end) {\n";
        for (std::size_t axis = 0; axis < last; ++axis)
            out += "        const i64 " + counter(axis) + " = " + counter(axis) + "_at;\n";
        const std::string k = counter(last);
        out += "        const i64 row = " + extent(last) + " - " + k + "_at < end - begin ? " +
               extent(last) + " - " + k + "_at : end - begin;\n";
        out += "        const i64 stop = " + k + "_at + row;\n";
        out += "        for (i64 " + k + " = " + k + "_at; " + k + " < stop; ++" + k + ") {\n";
        for (const std::string& variable : variables) out += indented(variable, 3);
        out += indented(locals, 3) + inside + "        }\n";
        out += "        begin += row;\n        " + k + "_at = 0;\n";
        std::string carry = "++" + counter(last - 1) + "_at;";
        for (std::size_t axis = last - 1; axis > 0; --axis)
            carry += "\n        if (" + counter(axis) + "_at == " + extent(axis) + ") { " +
                     counter(axis) + "_at = 0; ++" + counter(axis - 1) + "_at; }";
        return out + "        " + carry + "\n    }\n";
    }

    /// Device functions, and before them the helpers that all the code uses.
    std::string preamble() {
        std::string declared = checks() ? "struct fault;\n" : "";
        std::string defined;
        for (std::size_t k = 1; k < spec_.instances.size(); ++k) {
            // Some were found while types were still growing, and are not called by anyone.
            Emitter e(spec_, spec_.instances[k], helpers_);
            const auto index = static_cast<std::int32_t>(k);
            declared += e.result_struct(index);
            declared += "__attribute__((unused)) " + e.signature(index) + ";\n";
            defined += "\n" + e.function(index);
        }
        return helpers_.text() + (declared.empty() ? "" : "\n" + declared) + defined;
    }

    const kernel::Specialization& spec_;
    const Instance& kernel_;
    const ir::Routine& routine_;
    Helpers helpers_;
    std::vector<std::int32_t> slots_;  // of each parameter
    std::set<std::int32_t> outside_;   // locals assigned outside parallel loops so far
    std::string frame_;
    std::string regions_;
    int region_count_ = 0;
};

}  // namespace

std::string emit_c(const kernel::Specialization& spec) { return HostSource(spec).write(); }

}  // namespace tack::codegen
