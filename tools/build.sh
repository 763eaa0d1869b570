# Sourced by ./dev: configures, compiles and installs.

# configure FOLDER ARGUMENT...: once, and again when the arguments change. Later changes of a
# CMakeLists.txt are Ninja's own affair.
configure() {
    local folder=$1
    shift
    [[ -f $folder/build.ninja && $(cat "$folder/dev-arguments" 2>/dev/null) == "$*" ]] && return
    step "Configuring ${folder#"$ROOT"/}" "configure-${folder##*/}" \
        cmake -S "$ROOT" -B "$folder" -G Ninja -DTACK_WERROR=ON "$@"
    echo "$*" >"$folder/dev-arguments"
}

compile() {
    local folder=$1
    shift
    step "Compiling ${folder#"$ROOT"/}" "compile-${folder##*/}" cmake --build "$folder" "$@"
}

# configure_python FOLDER PYTHON ARGUMENT...
configure_python() {
    local folder=$1 python=$2
    shift 2
    configure "$folder" -DTACK_PYTHON=ON -DPython_EXECUTABLE="$python" -DCMAKE_INSTALL_LIBDIR=lib "$@"
}

site_packages() {
    "$1" -c 'import sysconfig; print(sysconfig.get_path("platlib"))'
}

# install_components PREFIX FOLDER COMPONENT...
install_components() {
    local prefix=$1 folder=$2 component
    shift 2
    for component in "$@"; do
        cmake --install "$folder" --component "$component" --prefix "$prefix"
    done
}

# Afresh, so that nothing stale stays behind.
reinstall_package() {
    rm -rf "$1"
    install_components "$1" build runtime development
    install_components "$1" "$2" python
}

# The package goes into .venv when anything that it is made of has changed.
install_package() {
    local package=("$VENV"/lib/python3*/site-packages) made_of
    package=${package[0]}/tack
    made_of=$(find python/tack include cmake build/src build/python -type f \
        \( -name '*.py' -o -name '*.pyi' -o -name '*.so*' -o -name '*.hpp' -o -name '*.cmake*' \) \
        -printf '%p %T@ %s\n' | sort)
    [[ $(cat build/installed 2>/dev/null) == "$package $made_of" && -d $package ]] && return
    step "Installing the package into .venv" install reinstall_package "$package" build
    echo "$package $made_of" >build/installed
}

# Whether the C++ tests with VTK are among the others.
vtk_argument() {
    if [[ $(missing_packages vtk) ]]; then echo -DTACK_VTK=OFF; else echo -DTACK_VTK=ON; fi
}

build_package() {
    local tests=-DTACK_TESTS=OFF
    # Once the tests are configured they stay so: going back and forth would cost a configuration.
    if grep -q TACK_TESTS=ON build/dev-arguments 2>/dev/null; then
        tests="-DTACK_TESTS=ON $(vtk_argument)"
    fi
    configure_python "$ROOT/build" "$VENV/bin/python" $tests
    compile "$ROOT/build"
    install_package
}

build_all() {
    configure_python "$ROOT/build" "$VENV/bin/python" -DTACK_TESTS=ON $(vtk_argument)
    compile "$ROOT/build"
    install_package
}

build_wheel() {
    local platform=manylinux_2_36_x86_64 made=build/wheel
    rm -rf $made/out dist/tack-*.whl
    mkdir -p $made/out dist
    step "Building the wheel" wheel "$VENV/bin/python" -m pip wheel . --no-deps --no-build-isolation \
        --wheel-dir $made/out --config-settings build-dir=$made/cmake
    step "Naming its platform" wheel-tags "$VENV/bin/python" -m wheel tags --remove \
        --platform-tag $platform $made/out/tack-*.whl
    step "Checking its platform" wheel-audit "$VENV/bin/auditwheel" show $made/out/tack-*.whl
    if ! tr -s '\n ' ' ' <"$LOGS/wheel-audit.log" | grep -q "platform tag: \"$platform\""; then
        fail "dev wheel: auditwheel does not accept $platform. Its report: $LOGS/wheel-audit.log"
    fi
    mv $made/out/tack-*.whl dist/
    ls -sh dist/tack-*.whl
}
