# Sourced by ./dev: the test command.

announce_partners() {
    echo "Test partners, installed once into .venv: PyTorch 750 MB (the CPU build; several GB where" \
        "pip offers only the one with CUDA), VTK and PyVista 590 MB, NumPy, Matplotlib, ml_dtypes," \
        "tvm-ffi and the test tools 400 MB, NVIDIA's run-time compiler 140 MB. And from Debian a" \
        "software OpenGL for VTK, 214 MB."
    if [[ $1 == all ]]; then
        echo "With --all also: JAX with SciPy 520 MB, Warp 390 MB, Numba 210 MB, dpnp with Intel's" \
            "runtimes 900 MB, pyarrow 170 MB, MLX, Open MPI, Dr.Jit and array-api-strict 100 MB," \
            "cuda-core 50 MB."
    fi
}

# Runs a command to its first failure and remembers that in `failed`. Not `command || failed=1`:
# there the shell would go on after a failure inside.
failed=0
attempt() {
    set +e
    (
        set -e
        "$@"
    )
    if (($? != 0)); then failed=1; fi
    set -e
}

# The files as they are now: those that git knows or would take. Without git never the same twice.
tree_hash() {
    if ! git rev-parse --git-dir >/dev/null 2>&1; then
        echo "$RANDOM$RANDOM$RANDOM"
        return
    fi
    git ls-files -z --cached --others --exclude-standard | sort -z |
        { xargs -0 sha256sum 2>/dev/null || true; } | sha256sum | cut -d ' ' -f 1
}

# Prints "VERSION PATH" for each Python from 3.10 to 3.13 that runs and can build extensions,
# one for each version, but for the one of .venv.
other_pythons() {
    local candidate
    for candidate in $(for v in 10 11 12 13; do command -v "python3.$v"; done) \
        "${PYENV_ROOT:-/nonexistent}"/versions/*/bin/python; do
        [[ -x $candidate ]] || continue
        "$candidate" -c 'if 1:
            import os, sys, sysconfig
            header = os.path.join(sysconfig.get_path("include"), "Python.h")
            if (3, 10) <= sys.version_info < (3, 14) and os.path.exists(header):
                print("%d.%d" % sys.version_info[:2], sys.executable)' 2>/dev/null || true
    done | sort -u -k 1,1 -t ' ' | grep -v "^$("$VENV/bin/python" -c \
        'import sys; print("%d.%d" % sys.version_info[:2])') " || true
}

# The extension is all that depends on the interpreter; the libraries are those of build/.
test_other_python() {
    local version=$1 python=$2 folder=$ROOT/build/py$1 stamp
    stamp=$(sha256sum requirements/interpreter.txt)
    if [[ $(cat "$folder/requirements" 2>/dev/null) != "$stamp" ]]; then
        rm -rf "$folder"
        step "Creating build/py$version/venv" "venv-$version" "$python" -m venv "$folder/venv"
        step "Installing NumPy and pytest for Python $version" "pip-$version" \
            "$folder/venv/bin/python" -m pip install --no-input --progress-bar off \
            -r requirements/interpreter.txt
        echo "$stamp" >"$folder/requirements"
    fi
    python=$folder/venv/bin/python
    configure_python "$folder" "$python" -DTACK_INSTALLED="$ROOT/build/prefix"
    compile "$folder"
    step "Installing for Python $version" "install-$version" \
        reinstall_package "$(site_packages "$python")/tack" "$folder"
    "$python" -m pytest --noconftest -p no:cacheprovider tests/python/test_interpreter.py
}

test_other_pythons() {
    local found version python
    found=$(other_pythons)
    echo "Other Pythons: ${found:-none found}" | tr '\n' ';' | sed 's/;$/\n/; s/;/; /g'
    [[ -n $found ]] || return 0
    step "Installing libtack into build/prefix" install-prefix \
        install_components build/prefix build runtime development
    while read -r version python; do
        attempt test_other_python "$version" "$python"
    done <<<"$found"
}

# The library and the bindings without a warning of the other compiler.
test_second_compiler() {
    CC=clang-16 CXX=clang++-16 configure_python "$ROOT/build/clang" "$VENV/bin/python" -DTACK_CLANG=OFF
    compile "$ROOT/build/clang"
}

run_ctest() {
    local status=0
    step "C++ tests" "ctest-${1##*/}" \
        ctest --test-dir "$1" --output-on-failure -j "$(nproc)" || status=$?
    grep -E 'tests (passed|failed)|Total Test time' "$LOGS/ctest-${1##*/}.log" || true
    awk '/^Failed in turn: / { calls += $4; ++scenarios; errors += $NF }
        END { if (calls) printf "Backend cuda: %d calls of the driver failed in turn in %d " \
            "scenarios, %d of them with an error.\n", calls, scenarios, errors }' \
        "$1/Testing/Temporary/LastTest.log" || true
    # What ran and what was skipped on each backend but the CPU, of tests that say it themselves.
    awk '!/^(Backend |    )/ { on = 0 } /^Backend / { on = 1 } on' \
        "$1/Testing/Temporary/LastTest.log" || true
    return $status
}

report_vtk() {
    [[ -z $(missing_packages vtk) ]] ||
        echo "C++ tests with VTK: skipped, its headers are not installed" \
            "(./dev test --vtk installs them, 1.7 GB)."
}

run_sanitized() {
    local name=$1
    shift
    install_packages build test
    configure "$ROOT/build/$name" -DTACK_TESTS=ON -DCMAKE_BUILD_TYPE=Debug \
        -DCMAKE_CXX_FLAGS_DEBUG=-O1 "$@"
    compile "$ROOT/build/$name"
    run_ctest "$ROOT/build/$name"
}

run_test() {
    local all='' sanitizer=''
    while (($# > 0)); do
        case $1 in
            --all) all=1 ;;
            --asan | --tsan) sanitizer=${1#--} ;;
            --exhaustive) export TACK_EXHAUSTIVE=1 ;;
            --vtk) install_packages vtk ;;
            --) shift && break ;;
            *) fail "dev test: unknown option '$1'. ./dev help lists them; pytest's come after --." ;;
        esac
        shift
    done
    export TACK_CACHE_DIR=$ROOT/build/cache/tests
    case $sanitizer in
        asan)
            report_vtk
            run_sanitized asan -DTACK_SANITIZE=address,undefined $(vtk_argument)
            ;;
        # Without VTK, which is not instrumented.
        tsan) run_sanitized tsan -DTACK_SANITIZE=thread ;;
        *) run_whole "${all:-}" "$@" ;;
    esac
}

# run_whole ALL [ARGUMENT...]
run_whole() {
    local all=$1
    shift

    local purposes=(build demo-vtk test)
    if [[ $all ]]; then purposes+=(partners); fi
    if [[ ! -e $VENV/tack-${purposes[-1]} ]]; then announce_partners "${all:+all}"; fi
    set_up "${purposes[@]}"
    build_all
    report_vtk

    if [[ ${1:-} == --gtest* ]]; then exec build/src/tack_tests "$@"; fi
    local pytest=("$VENV/bin/python" -m pytest)
    if (($# > 0)); then exec "${pytest[@]}" --scope=all "$@"; fi

    local tree passed=build/test-passed scope=core
    tree=$(tree_hash)
    if [[ $all ]]; then
        scope=all
        if [[ $(cat $passed 2>/dev/null) == "$tree ${TACK_EXHAUSTIVE:-}" ]]; then scope=rest; fi
    fi
    if [[ $scope == rest ]]; then
        echo "./dev test has passed for these files; only what it left out runs now."
    else
        attempt run_ctest build
    fi
    attempt "${pytest[@]}" --scope=$scope
    if [[ $all ]]; then
        test_other_pythons
        attempt test_second_compiler
    fi
    if ((failed)); then fail "dev test: something failed, see above."; fi
    if [[ $scope != rest ]]; then echo "$tree ${TACK_EXHAUSTIVE:-}" >$passed; fi
}
