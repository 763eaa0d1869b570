// Work that waits until something asks for it. A command names the commands it comes after; asking
// for one runs those first, on the thread of the executor, one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/memory.hpp"

namespace tack_sim {

// What a failed command ruins: a context.
struct FaultDomain {
    int sticky_error = 0;  // once set, no command of the domain runs any more
};

struct Command {
    std::string name;
    std::function<void()> work;  // runs unlocked, with device memory open; empty: a mark only
    std::vector<std::shared_ptr<Command>> after;
    std::vector<RangeRef> uses;
    std::shared_ptr<FaultDomain> domain;
    int device = 0;
    bool any_device = false;  // a copy, which may touch the memory of all devices
    bool host = false;        // work is a client's function: device memory stays closed
    bool done = false;
    double finished = 0;  // milliseconds since some point, once done
};

using CommandRef = std::shared_ptr<Command>;

// Error numbers of the driver that is simulated.
struct FaultErrors {
    int illegal_address;
    int launch_failed;
};

// The one queue of a process. All but `lock()`, `on_executor()` and `fail_command()` is called with
// the lock held; waiting gives it up.
class Queue {
public:
    static Queue& instance();

    std::unique_lock<std::mutex> lock();
    void set_errors(FaultErrors errors) { errors_ = errors; }

    // Notes what the command uses; it runs when it is waited for, or something after it is.
    void add(const CommandRef& command);

    // Runs work where so much is queued that a real driver would make its caller wait too; else
    // what is freed in order of the work could not be used again.
    void make_room(std::unique_lock<std::mutex>& lock);

    void wait(std::unique_lock<std::mutex>& lock, const CommandRef& command);

    // Runs the one command that `command`, if not done, has to wait for first.
    void step(std::unique_lock<std::mutex>& lock, const CommandRef& command);

    // While work is queued the host may not touch managed memory.
    void set_managed_exclusive() { managed_exclusive_ = true; }

    // Whether the caller is a command.
    static bool on_executor();

    // Called by a command: ends it and ruins its domain, as a bad access does if `illegal_address`.
    // Never returns.
    [[noreturn]] static void fail_command(const char* text, bool illegal_address = false);

private:
    struct Request {
        CommandRef command;
        bool single;
        bool finished = false;
    };
    Queue() = default;
    void ask(std::unique_lock<std::mutex>& lock, Request& request);
    void serve(std::unique_lock<std::mutex>& lock, Request& request);
    void execute(std::unique_lock<std::mutex>& lock, Command& command);
    void run();

    struct Signals;
    Signals* signals_ = nullptr;
    FaultErrors errors_{};
    bool managed_exclusive_ = false;
    size_t queued_work_ = 0;
    std::weak_ptr<Command> newest_;
};

}  // namespace tack_sim
