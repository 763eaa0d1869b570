/* What tests ask of the simulated CUDA driver beside CUDA: functions exported by its libcuda.so.1,
   found by dlsym.

   Environment, read when the library is loaded or initialised:
   TACK_SIM_REPORT=<file>           violations and leaks are appended there at exit; without it,
                                    they go to stderr, and the process exits with status 97 if
                                    there are any
   TACK_SIM_CALLS=<file>            tack_sim_calls() is appended there at exit, and a line "failed n":
                                    how many calls were made to fail
   TACK_SIM_FAIL=<name>:<n>[:<e>]   call n, counted from 1, of entry point <name> returns error e
                                    (999 if left out); several, comma separated
   TACK_SIM_KEEP=<kind>,<kind>      kinds of objects, as leaks name them ("stream", "memory pool"),
                                    that are no leaks: the client keeps them by design
   TACK_SIM_DEVICES=<n>             devices (1); 0: cuInit returns CUDA_ERROR_NO_DEVICE
   TACK_SIM_MISSING=<name>,<name>   entry points that cuGetProcAddress and dlsym do not find
   TACK_SIM_DRIVER_VERSION=<n>      1000 * major + 10 * minor (13000); later entry points are not
                                    found, below 11030 cuGetProcAddress is not either
   TACK_SIM_NO_POOLS=1              no stream-ordered memory pools
   TACK_SIM_NO_VMM=1                no virtual memory management
   TACK_SIM_CONCURRENT_MANAGED=0    the host may not touch managed memory while work is queued
   TACK_SIM_MIG=1                   cuDeviceGetUuid_v2 differs from cuDeviceGetUuid
   TACK_SIM_ARCH=<n>                10 * major + minor of the compute capability (90)
   TACK_SIM_MEMORY=<bytes>          memory of each device (16 GiB); beyond it, out of memory

   Report lines: "tack-sim: violation: ..." and "tack-sim: leak: ...". */
#ifndef TACK_SIM_CUDA_TACK_SIM_H
#define TACK_SIM_CUDA_TACK_SIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* As TACK_SIM_FAIL, replacing what was set before; calls are counted from the last reset. Null or
   "": none. Returns 0, or 1 when the text is malformed and nothing was changed. */
int tack_sim_fail(const char* spec);

/* Calls of an entry point, by its exported name ("cuMemAlloc_v2") or by its base name
   ("cuMemAlloc", all versions together), however it was found. */
uint64_t tack_sim_call_count(const char* name);
void tack_sim_reset_counts(void);

/* Calls that were made to fail since the last reset. */
uint64_t tack_sim_failed_count(void);

/* "name count" of every entry point that was called, a line each; returns the bytes needed with the
   terminating null, and writes as much as fits. The same holds for the two below. */
size_t tack_sim_calls(char* buffer, size_t size);

/* What would be reported as a leak at exit, a line each; empty: nothing is alive. */
size_t tack_sim_live_objects(char* buffer, size_t size);

/* The violations so far, a line each. */
size_t tack_sim_violations(char* buffer, size_t size);

/* Takes the violations so far out of the report: a test has seen what it provoked. */
void tack_sim_forget_violations(void);

/* Bytes of device memory allocated now, on all devices. */
uint64_t tack_sim_device_bytes(void);

/* 1 if the host may read the byte at ptr now, 0 if a touch would fault. */
int tack_sim_host_can_read(const void* ptr);

#ifdef __cplusplus
}
#endif

#endif
