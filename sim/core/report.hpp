// What a simulated driver has to say about its client: violations as they happen, leaks at exit.
#pragma once

#include <cstddef>
#include <string>

namespace tack_sim {

// Adds a line to the report. Any thread, under any lock of the simulator.
void violation(const std::string& text);

// All violations so far, a line each.
std::string violations();
void forget_violations();

// Lists what is alive, a line each; called once, when the process exits.
void set_leak_lister(std::string (*lister)());

// Whether objects of this kind ("stream") are left out of the lists of what is alive, as
// TACK_SIM_KEEP says: a client may keep some for the life of the process, and destroys none then.
bool is_kept(const char* kind);

// The process has forked: the child has nothing to report.
void silence_report();

// Whether the host may read the byte at `address` now, asked of the kernel and not tried.
bool host_can_read(const void* address);

}  // namespace tack_sim
