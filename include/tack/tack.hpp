/// Everything that Tack offers in C++, but for what needs another library's headers.
#pragma once

#include "tack/array.hpp"
#include "tack/cache.hpp"
#include "tack/config.hpp"
#include "tack/device.hpp"
#include "tack/dlpack.hpp"
#include "tack/dtype.hpp"
#include "tack/error.hpp"
#include "tack/half.hpp"
#include "tack/kernel.hpp"
#include "tack/shape.hpp"
#include "tack/vector.hpp"
