#include "codegen/c_dialect.hpp"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "codegen/emitter.hpp"
#include "codegen/variants.hpp"

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
            "const void *, i64, f64);\n    i64 cache_bytes;\n" +
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
        for (const std::int32_t local : outside_) out += "    " + entry.declared(local) + ";\n";
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
        regions_ += loop(id, s, body, variables, {.inside = inside});
        run += "        void (*enter)(const void *, i64, i64) = enter_" + id + ";\n";
        run += streaming(entry, id, s, variables, inside);
        run += accumulating(entry, id, s, variables);
        char text[160];
        std::snprintf(
            text, sizeof text,
            "        if (total > %lldll) runtime->parallel(runtime, enter, &frame, total, "
            "%.3g);\n",
            static_cast<long long>(std::max(1.0, serial_nanoseconds / cost)), cost);
        run += text;
        run += "        else if (total > 0) enter(&frame, 0, total);\n    }\n";
        return run;
    }

    /// One of the functions that can run a parallel loop; see variants.hpp for the others.
    struct Form {
        std::string suffix = {};
        std::string inside;               // the statements of a pass
        std::int32_t streamed = -1;       // array
        std::string staged = {};          // the pass that fills a block of it
        std::string index = {}, to = {};  // its element's address in a pass
        std::int32_t accumulated = -1;    // array
    };

    const kernel::ParameterType& parameter(std::int32_t k) const {
        return kernel_.parameters[static_cast<std::size_t>(k)];
    }
    std::string element_type(std::int32_t array) const {
        const DType d = parameter(array).type.dtype;
        return d == DType::bool_ ? "u8" : std::string(type_name(d));
    }
    /// The number of an array's elements, where the loop is entered.
    std::string elements(Emitter& entry, std::int32_t array) const {
        std::string out;
        for (int axis = 0; axis < parameter(array).ndim; ++axis) {
            entry.uses.extents.insert({array, axis});
            out += (axis ? " * " : "") + entry.extent_name(array, axis);
        }
        return out;
    }

    /// Where the arrays are larger than the caches, an output need not be read into them in order
    /// to be written: such stores must write whole cache lines. What chooses that form.
    std::string streaming(Emitter& entry, const std::string& id, const Stmt& s,
                          const std::vector<std::string>& variables, const std::string& inside) {
        const StreamedStore streamed = streamed_store(spec_, s);
        if (!streamed.store) return {};
        const std::int32_t array = streamed.store->index;
        Emitter body(spec_, kernel_, helpers_);
        body.streamed = array;
        Form form{.suffix = "_streaming", .inside = inside, .streamed = array};
        form.staged = body.statements(s.body, 0);
        form.index = body.statements(streamed.before, 0);
        form.to = body.address(array, streamed.store->operands.data());
        // Compilers without this builtin have the plain form only.
        const std::string supported = "#if __has_builtin(__builtin_nontemporal_store)\n";
        regions_ += "\n" + supported + loop(id, s, body, variables, form) + "#endif\n";

        std::string bytes;
        for (const std::int32_t k : body.uses.parameters)
            if (parameter(k).is_array && parameter(k).ndim > 0)
                bytes += (bytes.empty() ? "" : " + ") + elements(entry, k) + " * " +
                         std::to_string(itemsize(parameter(k).type.dtype));
        const std::string row = "frame.r" + id + "_" + std::to_string(variables.size() - 1) + "_n";
        return supported + "        if (" + row + " >= " + std::to_string(least_streamed_row) +
               " && " + bytes + " > runtime->cache_bytes) enter = enter_" + id + form.suffix +
               ";\n#endif\n";
    }

    /// Threads that add to the same few elements wait for each other: each adds to a copy, and
    /// those are added up at the end of each share. What chooses that form.
    std::string accumulating(Emitter& entry, const std::string& id, const Stmt& s,
                             const std::vector<std::string>& variables) {
        const std::int32_t array = accumulated_array(spec_, s);
        if (array < 0) return {};
        Emitter body(spec_, kernel_, helpers_);
        body.accumulated = array;
        Form form{.suffix = "_accumulating",
                  .inside = body.statements(s.body, variables.size() == 1 ? 2 : 3),
                  .accumulated = array};
        for (int axis = 0; axis < parameter(array).ndim; ++axis)
            body.uses.extents.insert({array, axis});
        regions_ += loop(id, s, body, variables, form);
        const std::string count = parameter(array).ndim ? elements(entry, array) : "1";
        return "        if (" + count + " <= " + std::to_string(most_accumulated) + " && total / " +
               std::to_string(least_passes_each) + " > " + count + ") enter = enter_" + id +
               form.suffix + ";\n";
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
        return type_of_local(local) + " " + body.local_name(local) + " = " + value + ";\n";
    }

    std::string loop(std::string id, const Stmt& s, const Emitter& body,
                     const std::vector<std::string>& variables, const Form& form) {
        const std::string frame_prefix = "r" + id;
        id += form.suffix;
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
                arguments +=
                    k == form.accumulated ? "sums, " : "(" + type + ")frame->slots[" + slot + "], ";
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
            if (std::count(s.locals.begin(), s.locals.end(), ir::Local{local})) continue;
            if (outside_.contains(local))
                out += "    const " + type_of_local(local) + " " + body.local_name(local) +
                       " = frame->" + frame_prefix + "_" + body.local_name(local) + ";\n";
            else
                locals += body.declared(local) + ";\n";
        }
        out += s.locals.size() == 1 ? passes(variables, locals, form, "begin", "end", 1)
                                    : rows(frame_prefix, variables, locals, form);
        if (form.streamed >= 0) out += "    __builtin_ia32_sfence();\n";
        out += "}\nstatic void enter_" + id +
               "(const void *of, i64 begin, i64 end) {\n    const struct frame *frame = of;\n";
        const std::string run = "    region_" + id + "(frame, " + arguments + "begin, end);\n";
        return out + (form.accumulated < 0 ? run : accumulate(form.accumulated, run)) + "}\n";
    }

    std::string accumulate(std::int32_t array, const std::string& run) {
        const DType d = parameter(array).type.dtype;
        const std::string type(type_name(d));
        const auto slot = slots_[static_cast<std::size_t>(array)];
        std::string count = "1";
        for (int axis = 0; axis < parameter(array).ndim; ++axis)
            count += " * (i64)frame->slots[" + std::to_string(slot + 1 + axis) + "]";
        // The one zero that adds nothing to any number, -0.0 included.
        const std::string zero = is_floating(d) ? "-0.0f" : "0";
        return "    const i64 count = " + count + ";\n    " + type + " sums[" +
               std::to_string(most_accumulated) +
               "];\n    for (i64 k = 0; k < count; ++k) sums[k] = " + zero + ";\n" + run + "    " +
               type + " *cells = (" + type + " *)frame->slots[" + std::to_string(slot) +
               "];\n    for (i64 k = 0; k < count; ++k)\n        " +
               (is_floating(d) ? "" : "if (sums[k] != 0) ") + helpers_.atomic(ir::Atomic::add, d) +
               "(cells + k, sums[k]);\n";
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

    /// The passes of the innermost axis from one count to another.
    std::string passes(const std::vector<std::string>& variables, const std::string& locals,
                       const Form& form, const std::string& from, const std::string& stop,
                       int depth) const {
        const std::string k = "k" + std::to_string(variables.size() - 1);
        std::string values;
        for (const std::string& variable : variables) values += variable;
        const auto plain = [&](const std::string& first, const std::string& last) {
            return "for (i64 " + k + " = " + first + "; " + k + " < " + last + "; ++" + k +
                   ") {\n" + indented(values + locals, 1);
        };
        const auto closed = [&](const std::string& head) {
            return indented(head, depth) + form.inside + indented("}\n", depth);
        };
        if (form.streamed < 0) return closed(plain(from, stop));

        const std::string type = element_type(form.streamed);
        const std::string block =
            std::to_string(streamed_block / itemsize(parameter(form.streamed).type.dtype));
        return indented("i64 at = " + from + ";\n" + type + " *to;\n{\n    const i64 " + k +
                            " = at;\n" + indented(values + locals + form.index, 1) +
                            "    to = " + form.to +
                            ";\n}\nconst i64 head = (i64)(-(u64)to % 64 / sizeof *to);\n"
                            "const i64 first = head < " +
                            stop + " - at ? at + head : " + stop + ";\n",
                        depth) +
               closed(plain("at", "first")) +
               indented("to += first - at;\nfor (at = first; at + " + block + " <= " + stop +
                            "; at += " + block + ", to += " + block + ") {\n    " + type +
                            " staged[" + block +
                            "] __attribute__((aligned(64)));\n"
                            "    for (i64 lane = 0; lane < " +
                            block +
                            "; ++lane) {\n"
                            "        const i64 " +
                            k + " = at + lane;\n" + indented(values + locals + form.staged, 2) +
                            "    }\n    typedef u8 line __attribute__((vector_size(64)));\n"
                            "    for (i64 lane = 0; lane < " +
                            block +
                            "; lane += 64 / (i64)sizeof *to)\n"
                            "        __builtin_nontemporal_store(*(const line *)(staged + lane), "
                            "(line *)(to + lane));\n}\n",
                        depth) +
               closed(plain("at", stop));
    }

    /// Any part of the flattened iterations, walked row by row so that the innermost loop is plain.
    std::string rows(const std::string& frame_prefix, const std::vector<std::string>& variables,
                     const std::string& locals, const Form& form) const {
        const auto extent = [&](std::size_t axis) {
            return "frame->" + frame_prefix + "_" + std::to_string(axis) + "_n";
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
        out += passes(variables, locals, form, k + "_at", "stop", 2);
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
            declared += e.signature(index) + ";\n";
            defined += "\n" + e.function(index);
        }
        return helpers_.text() + (declared.empty() ? "" : "\n" + declared) + defined;
    }

    // Bytes that are computed together, a multiple of 64; and the fewest passes of the innermost
    // axis for which that pays.
    static constexpr int streamed_block = 256;
    static constexpr int least_streamed_row = 128;
    // Elements of a thread's own copy, on its stack; and the passes for each of them, at which
    // adding the copies up costs little.
    static constexpr int most_accumulated = 2048;
    static constexpr int least_passes_each = 256;

    const kernel::Specialization& spec_;
    const Instance& kernel_;
    const ir::Routine& routine_;
    Helpers helpers_{host_target};
    std::vector<std::int32_t> slots_;  // of each parameter
    std::set<std::int32_t> outside_;   // locals assigned outside parallel loops so far
    std::string frame_;
    std::string regions_;
    int region_count_ = 0;
};

}  // namespace

std::string emit_c(const kernel::Specialization& spec) { return HostSource(spec).write(); }

}  // namespace tack::codegen
