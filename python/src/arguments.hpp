/// Python objects as the arguments of a launch.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "bindings.hpp"
#include "borrow.hpp"
#include "tack/launch.hpp"

namespace tack::python {

/// The arguments of one launch, on the stack for all but unusually many; imports of other
/// libraries' arrays live as long as this does.
class Arguments {
public:
    /// names: the parameters', for messages. objects: one per parameter, borrowed until the launch
    /// is over. Throws type for what is neither an array nor a number, naming the parameter, and
    /// what an import throws.
    Arguments(const char* kernel, PyObject* names, PyObject* const* objects, std::size_t count);

    std::span<const kernel::Argument> span() const noexcept { return {data_, count_}; }

private:
    kernel::Argument convert(PyObject* object, kernel::HostView& view);
    kernel::Argument convert_integer(PyObject* object);
    kernel::Argument convert_other(PyObject* object);

    static constexpr std::size_t inline_capacity = 32;
    std::array<kernel::Argument, inline_capacity> inline_;
    std::array<kernel::HostView, inline_capacity> inline_views_;
    std::vector<kernel::Argument> more_;
    std::vector<kernel::HostView> more_views_;
    kernel::Argument* data_ = inline_.data();
    kernel::HostView* views_ = inline_views_.data();  // one per argument, for those that need it
    std::size_t count_ = 0;
    std::vector<Array> imported_;
};

}  // namespace tack::python
