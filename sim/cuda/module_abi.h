/* The image that the simulated CUDA driver loads: an ELF shared object for the host that exports
   the two tables below. A compiler for the simulator writes such images; cuModuleLoadData and
   cuLibraryLoadData take them, as they are or as TACK_SIM_PTX says, and refuse everything else.

   Rules for an image:
   - Compile with -fPIC -fvisibility=hidden -fno-gnu-unique: an image loaded twice has its globals
     twice, and unique symbols would be merged by the loader.
   - It is loaded with RTLD_NOW | RTLD_LOCAL, and its size is taken from the ELF section table,
     which must therefore be the last thing in the file (as GNU ld writes it).
   - A kernel's memory accesses happen on the thread that calls `invoke`, and on no other: a fault
     there is turned into CUDA_ERROR_ILLEGAL_ADDRESS, and `invoke` then never returns. The driver
     leaves it by a long jump, from whatever stack it was on. */
#ifndef TACK_SIM_MODULE_ABI_H
#define TACK_SIM_MODULE_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tack_sim_launch {
    uint32_t grid[3];              /* blocks: x, y, z; none is zero */
    uint32_t block[3];             /* threads of a block: x, y, z; at most 1024 together */
    uint32_t dynamic_shared_bytes; /* of each block, beyond its static __shared__ variables */
    /* dynamic_shared_bytes of memory, aligned to 256 bytes and filled with 0xCB, ending at a guard
       page; the invoker uses it for one block after another. Null when none was asked for. */
    void* dynamic_shared;
    /* Ends the launch as a failed one (CUDA_ERROR_LAUNCH_FAILED, sticky) and adds `text` to the
       violation report: a barrier that not all threads reach, a failed assert. Never returns. */
    void (*fail)(const char* text);
};

struct tack_sim_kernel {
    const char* name;         /* as cuModuleGetFunction is asked for it; lowered if mangled */
    uint32_t parameter_count; /* of the __global__ function */
    const uint32_t* parameter_sizes; /* sizeof each, in bytes; null when there are none */
    /* Runs every thread of every block on the calling thread. parameters[i] points to
       parameter_sizes[i] bytes, aligned to 16, that belong to this launch. */
    void (*invoke)(void* const* parameters, const struct tack_sim_launch* launch);
    uint32_t uses_barriers;       /* 0: no __syncthreads or warp operation in the image */
    uint32_t static_shared_bytes; /* of a block; 0 when unknown */
};

struct tack_sim_symbol {
    const char* name; /* as cuModuleGetGlobal is asked for it */
    void* address;    /* a __device__ or __constant__ variable of this image */
    uint64_t size;    /* bytes */
};

/* The two exported names (dlsym): pointers to arrays that end with an entry whose name is null.
   TACK_SIM_IMAGE_SYMBOLS may be absent.

       extern "C" __attribute__((visibility("default")))
       const struct tack_sim_kernel* const tack_sim_kernels = table;                            */
#define TACK_SIM_IMAGE_KERNELS "tack_sim_kernels"
#define TACK_SIM_IMAGE_SYMBOLS "tack_sim_symbols"

/* The architecture the image was compiled for, as 10 * major + minor (sm_90: 90), or absent.
   An image for a newer architecture than the device's, or of another major version, is
   CUDA_ERROR_NO_BINARY_FOR_GPU.

       extern "C" __attribute__((visibility("default"))) const uint32_t tack_sim_architecture; */
#define TACK_SIM_IMAGE_ARCHITECTURE "tack_sim_architecture"

/* What takes the place of PTX is a text that begins with these words, behind which the image
   follows in hexadecimal digits, up to a line's end. It runs on newer architectures too, whatever
   their major version. */
#define TACK_SIM_PTX "// PTX of the stand-in for NVRTC, an image for the host: "

#ifdef __cplusplus
}
#endif

#endif
