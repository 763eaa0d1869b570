/// Arrays over host memory that needs no managed tensor to describe and keep it.
#pragma once

#include "array/buffer.hpp"
#include "tack/launch.hpp"

namespace tack {

/// An array over memory that the caller has judged already, as HostView says. `hold` is let go with
/// the last array over it, or before the return if this throws: what from_dlpack() throws of a
/// device that cannot wrap host memory.
TACK_API Array wrap_host(const kernel::HostView& view, const Device& device, Hold hold);

}  // namespace tack
