#include "backend/gpu/passes.hpp"

#include <algorithm>

namespace tack::gpu {
namespace {

using ir::Op;
using ir::StmtOp;
using Number = std::optional<std::int64_t>;

/// Evaluates what stands outside the loops as far as it is made of integers. What may differ from
/// the device's own result - a float, an element, a number that wraps - is left unknown.
class HostValues {
public:
    HostValues(const kernel::Specialization& spec, const std::uint64_t* slots)
        : kernel_(spec.instances.front()),
          routine_(spec.program->kernel),
          slots_(slots),
          locals_(kernel_.locals.size()) {
        std::int32_t slot = 0;
        for (const auto& p : kernel_.parameters) {
            first_slot_.push_back(slot);
            slot += p.is_array ? 1 + p.ndim : 1;
        }
    }

    std::vector<Number> run() {
        std::vector<Number> passes;
        for (const ir::Stmt& s : routine_.body) {
            if (s.op == StmtOp::parallel) {
                passes.push_back(passes_of(s));
            } else if (s.op == StmtOp::assign) {
                set(s.index, eval(s.operands[0]));
            } else {
                forget(s);
            }
        }
        return passes;
    }

private:
    DType dtype_of(ir::Value v) const { return kernel_.exprs[static_cast<std::size_t>(v)].dtype; }

    static Number as(DType dtype, Number value) {
        if (!value || !is_integer(dtype)) return std::nullopt;
        if (dtype == DType::uint64) return *value >= 0 ? value : std::nullopt;
        return kernel::fits(dtype, *value, false) ? value : std::nullopt;
    }

    void set(std::int32_t local, Number value) {
        const auto k = static_cast<std::size_t>(local);
        locals_[k] = as(kernel_.locals[k].dtype, value);
    }

    /// Whatever the statement may assign is unknown from here.
    void forget(const ir::Stmt& s) {
        if (s.op == StmtOp::assign) locals_[static_cast<std::size_t>(s.index)] = std::nullopt;
        for (const ir::Local local : s.locals)
            locals_[static_cast<std::size_t>(local)] = std::nullopt;
        for (const ir::Stmt& inner : s.body) forget(inner);
        for (const ir::Stmt& inner : s.otherwise) forget(inner);
    }

    Number passes_of(const ir::Stmt& loop) const {
        std::int64_t total = 1;
        bool known = true;
        for (const ir::Range& r : loop.ranges) {
            const Number start = eval(r.start), stop = eval(r.stop), step = eval(r.step);
            const Number axis = start && stop && step ? trips(*start, *stop, *step) : std::nullopt;
            if (axis == 0) return 0;
            known = known && axis && !__builtin_mul_overflow(total, *axis, &total);
        }
        return known ? Number(total) : std::nullopt;
    }

    static Number trips(std::int64_t start, std::int64_t stop, std::int64_t step) {
        if (step == 0) return 0;
        if (step > 0 ? start >= stop : start <= stop) return 0;
        const auto from = static_cast<std::uint64_t>(start), to = static_cast<std::uint64_t>(stop);
        const std::uint64_t distance = step > 0 ? to - from : from - to;
        const std::uint64_t stride =
            step > 0 ? static_cast<std::uint64_t>(step) : 0 - static_cast<std::uint64_t>(step);
        const std::uint64_t count = (distance - 1) / stride + 1;
        return count <= INT64_MAX ? Number(static_cast<std::int64_t>(count)) : std::nullopt;
    }

    std::uint64_t slot(std::int32_t parameter, int offset) const {
        return slots_[first_slot_[static_cast<std::size_t>(parameter)] + offset];
    }

    Number parameter(std::int32_t k) const {
        const DType dtype = kernel_.parameters[static_cast<std::size_t>(k)].type.dtype;
        if (!is_integer(dtype)) return std::nullopt;
        const std::uint64_t bits = slot(k, 0);
        const int unused = 64 - 8 * static_cast<int>(itemsize(dtype));
        const auto value = is_signed_integer(dtype)
                               ? static_cast<std::int64_t>(bits << unused) >> unused
                               : static_cast<std::int64_t>(bits << unused >> unused);
        return as(dtype, value);
    }

    Number eval(ir::Value v) const {
        const ir::Expr& e = routine_[v];
        switch (e.op) {
            case Op::literal_bool:
            case Op::literal_int:
                return e.integer;
            case Op::local:
                return locals_[static_cast<std::size_t>(e.index)];
            case Op::parameter:
                return parameter(e.index);
            case Op::extent: {
                const int ndim = array(e.index).ndim;
                const auto axis = static_cast<int>(e.integer < 0 ? e.integer + ndim : e.integer);
                return static_cast<std::int64_t>(slot(e.index, 1 + axis));
            }
            case Op::size: {
                std::int64_t size = 1;
                for (int axis = 0; axis < array(e.index).ndim; ++axis)
                    size *= static_cast<std::int64_t>(slot(e.index, 1 + axis));
                return size;
            }
            case Op::ndim:
                return array(e.index).ndim;
            case Op::cast:
            case Op::common:
                return as(dtype_of(v), eval(e.operands[0]));
            case Op::unary:
                if (static_cast<ir::Unary>(e.code) != ir::Unary::negative) return std::nullopt;
                return as(dtype_of(v), subtract(0, eval(e.operands[0])));
            case Op::binary:
                return as(dtype_of(v), binary(static_cast<ir::Binary>(e.code), eval(e.operands[0]),
                                              eval(e.operands[1])));
            default:
                return std::nullopt;
        }
    }

    const kernel::ParameterType& array(std::int32_t k) const {
        return kernel_.parameters[static_cast<std::size_t>(k)];
    }

    static Number subtract(Number a, Number b) {
        std::int64_t out = 0;
        if (!a || !b || __builtin_sub_overflow(*a, *b, &out)) return std::nullopt;
        return out;
    }

    static Number binary(ir::Binary op, Number a, Number b) {
        if (!a || !b) return std::nullopt;
        std::int64_t out = 0;
        switch (op) {
            case ir::Binary::add:
                return __builtin_add_overflow(*a, *b, &out) ? std::nullopt : Number(out);
            case ir::Binary::subtract:
                return subtract(a, b);
            case ir::Binary::multiply:
                return __builtin_mul_overflow(*a, *b, &out) ? std::nullopt : Number(out);
            case ir::Binary::floor_divide:
                if (*b == 0) return 0;
                if (*b == -1) return subtract(0, a);
                return *a / *b - (*a % *b != 0 && (*a < 0) != (*b < 0));
            case ir::Binary::remainder:
                if (*b == 0 || *b == -1) return 0;
                return *a % *b + (*a % *b != 0 && (*a < 0) != (*b < 0) ? *b : 0);
            case ir::Binary::minimum:
                return std::min(*a, *b);
            case ir::Binary::maximum:
                return std::max(*a, *b);
            default:
                return std::nullopt;
        }
    }

    const kernel::Instance& kernel_;
    const ir::Routine& routine_;
    const std::uint64_t* slots_;
    std::vector<std::int32_t> first_slot_;
    std::vector<Number> locals_;
};

}  // namespace

std::vector<std::optional<std::int64_t>> loop_passes(const kernel::Specialization& spec,
                                                     const std::uint64_t* slots) {
    return HostValues(spec, slots).run();
}

}  // namespace tack::gpu
