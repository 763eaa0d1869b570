// tack/kernel.hpp for Python: programs that a test generates are built by the C++ front end, to be
// compared with what the Python front end makes of the same ones.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "tack/kernel.hpp"

namespace nb = nanobind;
using tack::Expr;

namespace {

[[noreturn]] void unknown(const std::string& name) {
    throw std::invalid_argument("cpp_builder: no '" + name + "'");
}

Expr binary(const std::string& op, const Expr& a, const Expr& b) {
    if (op == "+") return a + b;
    if (op == "-") return a - b;
    if (op == "*") return a * b;
    if (op == "/") return a / b;
    if (op == "//") return tack::floor_divide(a, b);
    if (op == "%") return a % b;
    if (op == "&") return a & b;
    if (op == "|") return a | b;
    if (op == "^") return a ^ b;
    if (op == "<<") return a << b;
    if (op == ">>") return a >> b;
    if (op == "min") return tack::min(a, b);
    if (op == "max") return tack::max(a, b);
    if (op == "==") return a == b;
    if (op == "!=") return a != b;
    if (op == "<") return a < b;
    if (op == "<=") return a <= b;
    if (op == ">") return a > b;
    if (op == ">=") return a >= b;
    if (op == "and") return a && b;
    if (op == "or") return a || b;
    unknown(op);
}

Expr unary(const std::string& op, const Expr& a) {
    if (op == "-") return -a;
    if (op == "~") return ~a;
    if (op == "not") return !a;
    if (op == "abs") return tack::abs(a);
    if (op == "sqrt") return tack::sqrt(a);
    unknown(op);
}

Expr cast(const std::string& dtype, const Expr& a) {
    if (dtype == "int8") return tack::cast<std::int8_t>(a);
    if (dtype == "int32") return tack::cast<std::int32_t>(a);
    if (dtype == "int64") return tack::cast<std::int64_t>(a);
    if (dtype == "uint32") return tack::cast<std::uint32_t>(a);
    if (dtype == "float32") return tack::cast<float>(a);
    if (dtype == "float64") return tack::cast<double>(a);
    unknown(dtype);
}

template <class T>
void bind_dtype(nb::module_& m, const std::string& dtype) {
    nb::class_<tack::InOut<T>>(m, ("InOut_" + dtype).c_str())
        .def("shape", [](const tack::InOut<T>& a, int axis) { return a.shape(axis); })
        .def("get", [](const tack::InOut<T>& a, const Expr& i) { return Expr(a[i]); })
        .def("set", [](const tack::InOut<T>& a, const Expr& i, const Expr& v) { a[i] = v; })
        .def("add", [](const tack::InOut<T>& a, const Expr& i, const Expr& v) { a[i] += v; });
    nb::class_<tack::Var<T>>(m, ("Var_" + dtype).c_str())
        .def(nb::init<const Expr&>())
        .def("get", [](const tack::Var<T>& v) { return Expr(v); })
        .def("set", [](tack::Var<T>& v, const Expr& value) { v = value; });
}

}  // namespace

NB_MODULE(cpp_builder, m) {
    nb::class_<Expr>(m, "Expr")
        .def(nb::init<bool>())
        .def(nb::init<std::int64_t>())
        .def(nb::init<double>());
    bind_dtype<std::int8_t>(m, "int8");
    bind_dtype<std::int32_t>(m, "int32");
    bind_dtype<std::int64_t>(m, "int64");
    bind_dtype<std::uint32_t>(m, "uint32");
    bind_dtype<float>(m, "float32");
    bind_dtype<double>(m, "float64");

    m.def("binary", binary);
    m.def("unary", unary);
    m.def("cast", cast);
    m.def("select", tack::select);
    m.def("parallel", [](const Expr& stop, nb::callable body) { tack::parallel(stop, body); });
    m.def("for_", [](const Expr& start, const Expr& stop, const Expr& step, nb::callable body) {
        tack::for_({start, stop, step}, body);
    });
    m.def("while_", [](nb::callable condition, nb::callable body) {
        tack::while_([&] { return nb::cast<Expr>(condition()); }, body);
    });
    m.def("if_", [](const Expr& condition, nb::callable then) { tack::if_(condition, then); });
    m.def("if_", [](const Expr& condition, nb::callable then, nb::callable otherwise) {
        tack::if_(condition, then, otherwise);
    });
    m.def("break_", tack::break_);
    m.def("continue_", tack::continue_);

    m.def("program", [](nb::callable body) {
        const tack::Kernel kernel(
            "kernel", [&](tack::InOut<double> a, tack::InOut<float> b, tack::InOut<std::int64_t> c,
                          tack::InOut<std::int32_t> d) { body(a, b, c, d); });
        const auto some = [](tack::DType dtype) { return tack::zeros({1}, dtype); };
        return kernel.inspect(tack::kernel::Inspect::ir, some(tack::DType::float64),
                              some(tack::DType::float32), some(tack::DType::int64),
                              some(tack::DType::int32));
    });
}
