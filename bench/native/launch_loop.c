/* A bare driver's launches: cuLaunchKernel in a loop, which bench/gpu.py builds and calls. */
typedef int (*launch_function)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                               unsigned block_x, unsigned block_y, unsigned block_z,
                               unsigned shared_bytes, void* stream, void** parameters,
                               void** extra);

/* Queues `count` launches of a one-dimensional grid. Returns the first result that is no success.
 */
int launch_loop(launch_function launch, void* function, unsigned blocks, unsigned threads,
                void* stream, void** parameters, long count) {
    int result = 0;
    for (long k = 0; k < count && !result; ++k)
        result = launch(function, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, 0);
    return result;
}
