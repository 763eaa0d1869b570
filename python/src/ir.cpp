// tack._core.ProgramBuilder: tack::ir::Builder for the front end in python/tack/_frontend.
// Values, locals, parameters and functions are plain integers there, operators their names.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "program.hpp"
#include "tack/dtype.hpp"
#include "tack/ir.hpp"

namespace nb = nanobind;
using namespace nb::literals;
namespace ir = tack::ir;

namespace {

// In the order of the enumerators.
constexpr std::array<std::string_view, 6> unary_names = {"negative",    "positive", "invert",
                                                         "logical_not", "absolute", "round"};
constexpr std::array<std::string_view, 14> binary_names = {
    "add",     "subtract", "multiply", "divide",     "floor_divide", "remainder", "power",
    "bit_and", "bit_or",   "bit_xor",  "shift_left", "shift_right",  "minimum",   "maximum"};
constexpr std::array<std::string_view, 6> compare_names = {
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal"};
constexpr std::array<std::string_view, 3> atomic_names = {"add", "minimum", "maximum"};

template <class E, std::size_t N>
E enumerator(const std::array<std::string_view, N>& names, std::string_view name) {
    for (std::size_t k = 0; k < N; ++k)
        if (names[k] == name) return static_cast<E>(k);
    throw std::invalid_argument("ProgramBuilder: no operator '" + std::string(name) + "'");
}

ir::Math math_of(std::string_view name) {
    for (int k = 0; k < ir::math_count; ++k)
        if (ir::name(static_cast<ir::Math>(k)) == name) return static_cast<ir::Math>(k);
    throw std::invalid_argument("ProgramBuilder: no function '" + std::string(name) + "'");
}

using Index = std::int32_t;
using Indices = std::vector<Index>;

template <class T>
std::vector<T> handles(const Indices& indices) {
    std::vector<T> out;
    for (Index i : indices) out.push_back(static_cast<T>(i));
    return out;
}

std::vector<ir::Value> values(const Indices& indices) { return handles<ir::Value>(indices); }
ir::Value value(Index i) { return static_cast<ir::Value>(i); }
Index index(ir::Value v) { return static_cast<Index>(v); }
ir::Parameter parameter(Index i) { return static_cast<ir::Parameter>(i); }
ir::Local local(Index i) { return static_cast<ir::Local>(i); }

ir::Range range(const std::array<Index, 3>& r) { return {value(r[0]), value(r[1]), value(r[2])}; }

std::array<Index, 3> range_items(nb::handle object) {
    const auto t = nb::cast<nb::tuple>(object);
    return {nb::cast<Index>(t[0]), nb::cast<Index>(t[1]), nb::cast<Index>(t[2])};
}

Index integer_literal(ir::Builder& b, nb::handle integer) {
    std::int64_t small = 0;
    if (nb::try_cast(integer, small)) return index(b.literal(small));
    std::uint64_t large = 0;
    if (nb::try_cast(integer, large)) return index(b.literal(large));
    b.fail("the integer " + std::string(nb::str(integer).c_str()) +
           " does not fit 64 bits; write a float, or scale the computation");
}

}  // namespace

void bind_ir(nb::module_& m) {
    nb::class_<PythonProgram>(m, "Program", "A finished kernel program; str() shows it.")
        .def("__str__", [](const PythonProgram& p) { return ir::to_string(*p.program); });

    nb::class_<ir::Builder> builder(
        m, "ProgramBuilder",
        "Builds one kernel program: tack::ir::Builder of include/tack/ir.hpp, whose rules hold.\n"
        "Values, locals, parameters and functions are integers; a range is a tuple of three "
        "values.");
    builder.def(nb::init<std::string>(), "name"_a)
        .def("source", &ir::Builder::source, "file"_a, "line"_a, "text"_a)
        .def("at", &ir::Builder::at, "line"_a, "column"_a)
        .def("fail", [](const ir::Builder& b, const std::string& message) { b.fail(message); })
        .def("finish", [](ir::Builder& b) { return PythonProgram{b.finish()}; });

    builder
        .def("parameter",
             [](ir::Builder& b, std::string name) {
                 return static_cast<Index>(b.parameter(std::move(name)));
             })
        .def("scalar_parameter",
             [](ir::Builder& b, std::string name, std::string_view dtype) {
                 return static_cast<Index>(
                     b.scalar_parameter(std::move(name), tack::dtype_from_name(dtype)));
             })
        .def("begin_function",
             [](ir::Builder& b, std::string name, const std::vector<std::string>& parameters) {
                 return static_cast<Index>(b.begin_function(std::move(name), parameters));
             })
        .def("end_function", &ir::Builder::end_function);

    builder.def("literal_bool", [](ir::Builder& b, bool v) { return index(b.literal(v)); })
        .def("literal_integer", integer_literal)
        .def("literal_float", [](ir::Builder& b, double v) { return index(b.literal(v)); })
        .def("use_local", [](ir::Builder& b, Index l) { return index(b.use(local(l))); })
        .def("use_parameter", [](ir::Builder& b, Index p) { return index(b.use(parameter(p))); })
        .def("load",
             [](ir::Builder& b, Index array, const Indices& indices) {
                 return index(b.load(parameter(array), values(indices)));
             })
        .def(
            "extent",
            [](ir::Builder& b, Index array, int axis, int ndim) {
                return index(b.extent(parameter(array), axis, ndim));
            },
            "array"_a, "axis"_a, "ndim"_a = -1)
        .def("ndim", [](ir::Builder& b, Index array) { return index(b.ndim(parameter(array))); })
        .def("common", [](ir::Builder& b, const Indices& v) { return index(b.common(values(v))); })
        .def("random",
             [](ir::Builder& b, std::string_view dtype, const Indices& seed_and_indices) {
                 return index(b.random(tack::dtype_from_name(dtype), values(seed_and_indices)));
             })
        .def("size", [](ir::Builder& b, Index array) { return index(b.size(parameter(array))); })
        .def("unary",
             [](ir::Builder& b, std::string_view op, Index operand) {
                 return index(b.unary(enumerator<ir::Unary>(unary_names, op), value(operand)));
             })
        .def("binary",
             [](ir::Builder& b, std::string_view op, Index left, Index right) {
                 return index(
                     b.binary(enumerator<ir::Binary>(binary_names, op), value(left), value(right)));
             })
        .def("compare",
             [](ir::Builder& b, std::string_view op, Index left, Index right) {
                 return index(b.compare(enumerator<ir::Compare>(compare_names, op), value(left),
                                        value(right)));
             })
        .def("logical_and",
             [](ir::Builder& b, Index left, Index right) {
                 return index(b.logical_and(value(left), value(right)));
             })
        .def("logical_or",
             [](ir::Builder& b, Index left, Index right) {
                 return index(b.logical_or(value(left), value(right)));
             })
        .def("select",
             [](ir::Builder& b, Index condition, Index then, Index otherwise) {
                 return index(b.select(value(condition), value(then), value(otherwise)));
             })
        .def("cast",
             [](ir::Builder& b, std::string_view dtype, Index operand) {
                 return index(b.cast(tack::dtype_from_name(dtype), value(operand)));
             })
        .def("math",
             [](ir::Builder& b, std::string_view function, const Indices& operands) {
                 return index(b.math(math_of(function), values(operands)));
             })
        .def("call",
             [](ir::Builder& b, Index function, const Indices& arguments) {
                 return index(b.call(static_cast<ir::Function>(function), values(arguments)));
             })
        .def("atomic", [](ir::Builder& b, std::string_view op, Index array, const Indices& indices,
                          Index operand) {
            return index(b.atomic(enumerator<ir::Atomic>(atomic_names, op), parameter(array),
                                  values(indices), value(operand)));
        });

    builder
        .def("local", [](ir::Builder& b,
                         std::string name) { return static_cast<Index>(b.local(std::move(name))); })
        .def("assign",
             [](ir::Builder& b, Index target, Index v) { b.assign(local(target), value(v)); })
        .def("store", [](ir::Builder& b, Index array, const Indices& indices,
                         Index v) { b.store(parameter(array), values(indices), value(v)); })
        .def("evaluate", [](ir::Builder& b, Index v) { b.evaluate(value(v)); })
        .def("parallel",
             [](ir::Builder& b, const Indices& variables, nb::list ranges) {
                 std::vector<ir::Range> r;
                 for (nb::handle item : ranges) r.push_back(range(range_items(item)));
                 b.parallel(handles<ir::Local>(variables), r);
             })
        .def("for_range", [](ir::Builder& b, Index variable,
                             nb::tuple r) { b.for_range(local(variable), range(range_items(r))); })
        .def("while_loop", [](ir::Builder& b, Index condition) { b.while_loop(value(condition)); })
        .def("if_begin", [](ir::Builder& b, Index condition) { b.if_begin(value(condition)); })
        .def("if_else", &ir::Builder::if_else)
        .def("end", &ir::Builder::end)
        .def("break_loop", &ir::Builder::break_loop)
        .def("continue_loop", &ir::Builder::continue_loop)
        .def("return_values", [](ir::Builder& b, const Indices& v) { b.return_values(values(v)); })
        .def("unpack", [](ir::Builder& b, const Indices& targets,
                          Index call) { b.unpack(handles<ir::Local>(targets), value(call)); })
        .def("return_nothing", &ir::Builder::return_nothing);

    m.def("math_functions", [] {
        nb::list names;
        for (int k = 0; k < ir::math_count; ++k) {
            const std::string_view name = ir::name(static_cast<ir::Math>(k));
            names.append(nb::str(name.data(), name.size()));
        }
        return nb::tuple(names);
    });
}
