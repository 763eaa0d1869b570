// Addresses as the CUDA driver sees them, shared by the files of memory entry points.
#pragma once

#include "cuda/driver.hpp"

namespace tack_sim::cuda {

// Whether `bytes` more fit into the device; counts them if so.
bool charge(Device& device, size_t bytes);
void refund(Device& device, size_t bytes);

// The range that holds an address; null: unknown to the driver, or freed.
RangeRef range_at(Address address);

// A report line and CUDA_ERROR_INVALID_VALUE for an address that cannot be freed.
Result bad_free(const char* call, Address address);

// A report line if commands that use the range have not run.
void check_unused(const char* call, const Range& range);

inline void* pointer(Address address) { return reinterpret_cast<void*>(address); }
inline Address address_of(const void* p) { return reinterpret_cast<Address>(p); }

}  // namespace tack_sim::cuda
