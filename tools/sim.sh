# Sourced by ./dev: runs a command with a simulated driver in the place of the real one.

# run_sim BACKEND [OPTION...] -- COMMAND [ARGUMENT...]
run_sim() {
    local backend=${1:-} value
    [[ $backend == cuda ]] || fail "dev sim: there is a simulated driver for: cuda (not '$backend')."
    shift
    while (($# > 0)) && [[ $1 != -- ]]; do
        case $1 in
            --no-pools) export TACK_SIM_NO_POOLS=1 ;;
            --no-vmm) export TACK_SIM_NO_VMM=1 ;;
            --devices | --driver-version | --missing | --fail | --report)
                (($# > 1)) && [[ $2 != -- ]] || fail "dev sim: $1 needs a value."
                value=$2
                # The command may run elsewhere.
                [[ $1 == --report ]] && value=$(realpath -m "$value")
                export "TACK_SIM_$(tr 'a-z-' 'A-Z_' <<<"${1#--}")=$value"
                shift
                ;;
            *) fail "dev sim: unknown option '$1'. ./dev help lists them; the command comes after --." ;;
        esac
        shift
    done
    (($# > 1)) || fail "dev sim: which command? ./dev sim $backend [OPTION...] -- COMMAND"
    shift
    install_packages build test
    install_requirements build
    build_all

    local folder=$ROOT/build/sim/cuda
    export TACK_CUDA_DRIVER=$folder/libcuda.so.1 TACK_NVRTC=$folder/libnvrtc.so.13
    export TACK_SIM_CACHE=${TACK_SIM_CACHE:-$ROOT/build/cache/sim}
    # What a device of Tack's has as long as the process lives is no leak.
    export TACK_SIM_KEEP=${TACK_SIM_KEEP-stream,memory pool,module}
    export LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    # Programs that look into PyPI's NVIDIA packages first take what is loaded already.
    export LD_PRELOAD=$TACK_NVRTC${LD_PRELOAD:+:$LD_PRELOAD}
    exec env PATH="$VENV/bin:$PATH" "$@"
}
