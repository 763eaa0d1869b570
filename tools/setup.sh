# Sourced by ./dev: installs Debian's and Python's packages for the purposes that a command names.
VENV=$ROOT/.venv
PYTHON=${TACK_DEV_PYTHON:-/usr/bin/python3}
[[ -x $PYTHON || -n ${TACK_DEV_PYTHON:-} ]] || PYTHON=python3

# Debian's own tools first: a version manager's stand-ins are slow and may be older.
export PATH=/usr/bin:/bin:$PATH
export XDG_CACHE_HOME=$ROOT/build/cache
export MPLCONFIGDIR=$ROOT/build/cache/matplotlib
# git reads this tree whoever owns it, without the user's settings too.
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0=$ROOT
export PIP_DISABLE_PIP_VERSION_CHECK=1

# PURPOSE PACKAGE PATTERN: the package is there if a file matches the pattern.
apt_table() {
    cat <<'TABLE'
build g++ /usr/bin/g++
build cmake /usr/bin/cmake
build ninja-build /usr/bin/ninja
build python3-dev /usr/include/python3*/Python.h
build python3-venv /usr/lib/python3*/ensurepip/__init__.py
build libpthreadpool-dev /usr/include/pthreadpool.h
build llvm-22-dev /usr/lib/llvm-22/lib/libLLVMCore.a
build libclang-22-dev /usr/lib/llvm-22/lib/libclangCodeGen.a
build libpolly-22-dev /usr/lib/llvm-22/lib/libPolly.a
build lld-22 /usr/lib/llvm-22/bin/ld.lld
build libzstd-dev /usr/lib/*/libzstd.a
build zlib1g-dev /usr/lib/*/libz.a
demo-vtk libegl1 /usr/lib/*/libEGL.so.1
demo-vtk libgl1-mesa-dri /usr/lib/*/dri/swrast_dri.so
test git /usr/bin/git
test libgtest-dev /usr/include/gtest/gtest.h
test libvulkan-dev /usr/include/vulkan/vulkan.h
test g++-mingw-w64-x86-64-posix /usr/bin/x86_64-w64-mingw32-g++-posix
test clang-16 /usr/bin/clang++-16
test libclang-rt-16-dev /usr/lib/llvm-16/lib/clang/16/lib/linux/libclang_rt.fuzzer-x86_64.a
vtk libvtk9-dev /usr/include/vtk-*/vtkDataArray.h
TABLE
}

missing_packages() {
    local purpose package pattern
    while read -r purpose package pattern; do
        if [[ " $* " == *" $purpose "* ]] && ! compgen -G "$pattern" >/dev/null; then
            echo "$package"
        fi
    done < <(apt_table)
}

is_debian_12() {
    [[ -r /etc/os-release ]] || return 1
    (. /etc/os-release && [[ ${ID:-} == debian && ${VERSION_ID:-} == 12 ]])
}

install_packages() {
    local missing root=()
    mapfile -t missing < <(missing_packages "$@")
    ((${#missing[@]} > 0)) || return 0
    local command="apt-get install -y --no-install-recommends ${missing[*]}"
    if ! is_debian_12; then
        fail "dev: missing: ${missing[*]} (Debian 12's names). Only Debian 12 can be set up from" \
            "here: install their counterparts, then call ./dev again."
    fi
    if ((EUID != 0)); then
        if ! command -v sudo >/dev/null || ! { sudo -n true 2>/dev/null || [[ -t 2 ]]; }; then
            fail "dev: missing: ${missing[*]}. As root, run: apt-get update && $command"
        fi
        sudo -v || fail "dev: missing: ${missing[*]}. As root, run: apt-get update && $command"
        root=(sudo)
    fi
    root+=(env DEBIAN_FRONTEND=noninteractive)
    step "Updating Debian's package lists" apt-update "${root[@]}" apt-get update
    step "Installing ${missing[*]}" apt-install "${root[@]}" $command
}

# What the installed Python packages follow from; a change installs again.
requirements_stamp() {
    { echo "$ROOT" "$PYTHON" && cat requirements/*.txt; } | sha256sum | cut -d ' ' -f 1
}

install_requirements() {
    local stamp purpose files=() stamps=()
    stamp=$(requirements_stamp)
    for purpose in "$@"; do
        if [[ $(cat "$VENV/tack-$purpose" 2>/dev/null) != "$stamp" ]]; then
            files+=(-r "requirements/$purpose.txt")
            stamps+=("$VENV/tack-$purpose")
        fi
    done
    ((${#files[@]} > 0)) || return 0
    # The probe catches a folder that was moved or whose Python is gone.
    if ! "$VENV/bin/pip" --version >/dev/null 2>&1; then
        rm -rf "$VENV"
        step "Creating .venv" venv "$PYTHON" -m venv "$VENV"
    fi
    step "Installing Python packages for: $*" pip \
        "$VENV/bin/python" -m pip install --no-input --progress-bar off "${files[@]}"
    for purpose in "${stamps[@]}"; do echo "$stamp" >"$purpose"; done
}

# set_up PURPOSE...: all that the purposes need is there afterwards.
set_up() {
    install_packages "$@"
    install_requirements "$@"
    # pip has read the user's settings by now; whatever else looks for a home gets one of ours.
    export HOME=$ROOT/build/home
    mkdir -p "$HOME"
}
