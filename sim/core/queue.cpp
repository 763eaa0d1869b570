#include "core/queue.hpp"

#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <thread>

#include "core/report.hpp"

namespace tack_sim {
namespace {

// Of the one executor thread; the signal handler reads them there and nowhere else.
std::atomic<pid_t> executor_id = 0;
sigjmp_buf command_start;
std::atomic<bool> command_running = false;
int command_device = 0;
char failure_text[256];

// Why sigsetjmp returns a second time.
enum { by_address = 1, by_launch = 2 };

struct sigaction previous[2];  // of SIGSEGV and SIGBUS
std::atomic<bool> passed_on[2] = {false, false};

pid_t thread_id() { return static_cast<pid_t>(syscall(SYS_gettid)); }

void on_fault(int number, siginfo_t* info, void* context) {
    if (thread_id() == executor_id && command_running) {
        auto address = reinterpret_cast<uintptr_t>(info->si_addr);
        if (Memory::instance().open(address, command_device)) return;
        snprintf(failure_text, sizeof failure_text, "illegal access to %p", info->si_addr);
        siglongjmp(command_start, by_address);
    }
    int which = number == SIGBUS;
    struct sigaction& old = previous[which];
    if (!passed_on[which].exchange(true)) {
        if (old.sa_flags & SA_SIGINFO) return old.sa_sigaction(number, info, context);
        if (old.sa_handler != SIG_DFL && old.sa_handler != SIG_IGN) return old.sa_handler(number);
    }
    // The access is repeated on return and ends the process.
    signal(number, SIG_DFL);
}

// Before each round of work, as the client may have set handlers of its own since the last.
void take_signals() {
    static const int numbers[2] = {SIGSEGV, SIGBUS};
    for (int which = 0; which < 2; ++which) {
        struct sigaction current;
        sigaction(numbers[which], nullptr, &current);
        if ((current.sa_flags & SA_SIGINFO) && current.sa_sigaction == on_fault) continue;
        previous[which] = current;
        struct sigaction ours{};
        ours.sa_sigaction = on_fault;
        ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        sigemptyset(&ours.sa_mask);
        sigaction(numbers[which], &ours, nullptr);
    }
}

}  // namespace

struct Queue::Signals {
    std::condition_variable asked;
    std::condition_variable served;
    std::deque<Request*> requests;
};

Queue& Queue::instance() {
    static Queue* queue = new Queue;
    return *queue;
}

std::unique_lock<std::mutex> Queue::lock() {
    static std::mutex* mutex = new std::mutex;
    return std::unique_lock(*mutex);
}

bool Queue::on_executor() { return thread_id() == executor_id; }

void Queue::fail_command(const char* text, bool illegal_address) {
    snprintf(failure_text, sizeof failure_text, "%s", text);
    siglongjmp(command_start, illegal_address ? by_address : by_launch);
}

void Queue::add(const CommandRef& command) {
    std::erase_if(command->after, [](const CommandRef& c) { return !c || c->done; });
    for (const RangeRef& range : command->uses) ++range->queued;
    if (!command->work) return;
    ++queued_work_;
    newest_ = command;
    if (managed_exclusive_) Memory::instance().set_managed_access(false);
}

void Queue::make_room(std::unique_lock<std::mutex>& lock) {
    constexpr size_t most = 1024;
    if (queued_work_ >= most) wait(lock, newest_.lock());
}

void Queue::wait(std::unique_lock<std::mutex>& lock, const CommandRef& command) {
    if (!command || command->done) return;
    Request request{command, false};
    ask(lock, request);
}

void Queue::step(std::unique_lock<std::mutex>& lock, const CommandRef& command) {
    if (!command || command->done) return;
    Request request{command, true};
    ask(lock, request);
}

void Queue::ask(std::unique_lock<std::mutex>& lock, Request& request) {
    if (!signals_) {
        signals_ = new Signals;
        std::thread([this] { run(); }).detach();
    }
    signals_->requests.push_back(&request);
    signals_->asked.notify_one();
    signals_->served.wait(lock, [&] { return request.finished; });
}

void Queue::run() {
    executor_id = thread_id();
    sigset_t all;
    sigfillset(&all);
    for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigdelset(&all, number);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    stack_t alternate{};
    alternate.ss_size = 1 << 16;
    alternate.ss_sp = new char[alternate.ss_size];
    sigaltstack(&alternate, nullptr);

    std::unique_lock<std::mutex> held = lock();
    for (;;) {
        signals_->asked.wait(held, [&] { return !signals_->requests.empty(); });
        Request& request = *signals_->requests.front();
        take_signals();
        serve(held, request);
        Memory::instance().close_all();
        if (managed_exclusive_ && !queued_work_) Memory::instance().set_managed_access(true);
        signals_->requests.pop_front();
        request.finished = true;
        signals_->served.notify_all();
    }
}

void Queue::serve(std::unique_lock<std::mutex>& lock, Request& request) {
    std::vector<CommandRef> path{request.command};
    while (!path.empty()) {
        CommandRef command = path.back();
        if (command->done) {
            path.pop_back();
            continue;
        }
        CommandRef earlier;
        while (!command->after.empty() && !earlier) {
            if (!command->after.back()->done)
                earlier = command->after.back();
            else
                command->after.pop_back();
        }
        if (earlier) {
            path.push_back(earlier);
            continue;
        }
        execute(lock, *command);
        if (request.single) return;
    }
}

void Queue::execute(std::unique_lock<std::mutex>& lock, Command& command) {
    if (command.work && !command.domain->sticky_error) {
        int device = command.any_device ? Memory::any_device : command.device;
        if (command.host || device != command_device) Memory::instance().close_all();
        command_device = device;
        lock.unlock();
        int failed = 0;
        if (command.host) {
            command.work();
        } else {
            failed = sigsetjmp(command_start, 1);
            command_running = !failed;
            if (!failed) command.work();
            command_running = false;
        }
        lock.lock();
        if (failed) {
            command.domain->sticky_error =
                failed == by_address ? errors_.illegal_address : errors_.launch_failed;
            violation(command.name + ": " + failure_text);
        }
    }
    command.done = true;
    command.finished = std::chrono::duration<double, std::milli>(
                           std::chrono::steady_clock::now().time_since_epoch())
                           .count();
    for (const RangeRef& range : command.uses) --range->queued;
    command.uses.clear();
    if (command.work) --queued_work_;
    command.work = nullptr;
}

}  // namespace tack_sim
