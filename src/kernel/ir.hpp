/// The program of a kernel: untyped trees, shared by both front ends.
#pragma once

#include <deque>
#include <set>
#include <string>
#include <vector>

#include "tack/ir.hpp"

namespace tack::ir {

struct Location {
    int line = 0;    // in the file, from 1; 0 where unknown
    int column = 0;  // from 1; 0 where unknown
};

/// Where a kernel's or function's text stands.
struct Source {
    std::string file;
    int line = 0;  // of the text's first line
    std::string text;
};

enum class Op : std::uint8_t {
    literal_bool,
    literal_int,    // integer
    literal_uint,   // integer, read as unsigned: above int64
    literal_float,  // number
    local,          // index
    parameter,      // index
    load,           // index: parameter; operands: indices
    extent,         // index: parameter; integer: axis; code: 1 + ndim to have, or 0
    size,           // index: parameter
    ndim,           // index: parameter
    unary,          // code: Unary
    binary,         // code: Binary
    compare,        // code: Compare
    logical_and,
    logical_or,
    select,
    cast,    // dtype
    math,    // code: Math
    call,    // index: function; operands: arguments
    atomic,  // code: Atomic; index: parameter; operands: indices, then the value
    common,  // operands: the value, then others of whose types it takes the promotion
    random,  // dtype; operands: seed, indices
};

struct Expr {
    Op op;
    std::uint8_t code = 0;
    DType dtype = DType::bool_;
    std::int32_t index = 0;
    std::int64_t integer = 0;
    double number = 0;
    std::vector<Value> operands = {};
    Location where = {};
};

enum class StmtOp : std::uint8_t {
    assign,      // local; value
    store,       // parameter; operands: indices, then the value
    evaluate,    // value
    parallel,    // locals, ranges; body
    for_range,   // locals, ranges (one each); body
    while_loop,  // value; body
    if_else,     // value; body, otherwise
    break_loop,
    continue_loop,
    return_value,  // values, or none
    unpack,        // locals; the call
};

struct Stmt;
using Block = std::vector<Stmt>;

struct Stmt {
    StmtOp op;
    std::int32_t index = 0;       // local or parameter
    std::vector<Value> operands;  // see StmtOp
    std::vector<Local> locals;
    std::vector<Range> ranges;
    Block body;
    Block otherwise;
    Location where;
};

struct ParameterInfo {
    enum class Kind : std::uint8_t { any, array, scalar };
    std::string name;
    Kind kind = Kind::any;
    DType dtype = DType::bool_;  // where kind is array or scalar
};

/// A kernel's body or a device function's; each has expressions, locals and parameters of its own.
struct Routine {
    std::string name;
    Source source;
    std::vector<ParameterInfo> parameters;
    std::vector<std::string> locals;  // names
    // Of the locals those that no user named: a weak number stays weak in them.
    std::set<std::int32_t> temporaries;
    std::vector<Expr> exprs;
    Block body;

    const Expr& operator[](Value v) const { return exprs[static_cast<std::size_t>(v)]; }
};

struct Program {
    Routine kernel;
    std::deque<Routine> functions;  // a deque: building one may begin another
};

/// "file:line:column: error: message", the line itself with a caret under the column (where the
/// text is known, else a sentence that it is not), as an Error of kind compile.
[[noreturn]] void fail(const Routine& routine, Location where, const std::string& message);

}  // namespace tack::ir
