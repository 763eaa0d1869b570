// What the sanitizers must be told, in every test program; without them nobody calls these.

#define TACK_FOUND_BY_NAME extern "C" __attribute__((visibility("default")))

// Tests ask for more memory than there is: null, as without the sanitizer, and not the end.
TACK_FOUND_BY_NAME const char* __asan_default_options() { return "allocator_may_return_null=1"; }

// Processes that a test ends with everything alive.
bool tack_test_keeps_things = false;
TACK_FOUND_BY_NAME int __lsan_is_turned_off() { return tack_test_keeps_things; }

// Tests start threads in a forked child, which TSan refuses unless told otherwise.
TACK_FOUND_BY_NAME const char* __tsan_default_options() {
    return "allocator_may_return_null=1:die_after_fork=0";
}

// Debian's LLVM is not instrumented, so that TSan misses the locks of what it keeps between
// threads.
TACK_FOUND_BY_NAME const char* __tsan_default_suppressions() {
    return "called_from_lib:libtack_clang.so\n";
}
