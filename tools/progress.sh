# Sourced by ./dev: long steps with a log, a sign of life and the end of the log when they fail.
LOGS=$ROOT/build/logs

fail() {
    printf '%s\n' "$*" >&2
    exit 1
}

# The last line of a log, short enough for one line of a terminal.
log_line() {
    tail -c 400 "$1" | tr '\r' '\n' | grep -v '^[[:space:]]*$' | tail -n 1 | cut -c 1-"$2" || true
}

# Reports on a running step once a second on a terminal, else at 1 s and then every 20 s.
watch_step() {
    local text=$1 log=$2 seconds=0
    while sleep 1 >/dev/null 2>&1; do
        seconds=$((seconds + 1))
        if [[ -t 1 ]]; then
            printf '\r\033[K%s: %d s  %s' "$text" "$seconds" "$(log_line "$log" 60)"
        elif ((seconds == 1)); then
            printf '%s ...\n' "$text"
        elif ((seconds % 20 == 0)); then
            printf '%s: %d s  %s\n' "$text" "$seconds" "$(log_line "$log" 100)"
        fi
    done
}

# step TEXT LOG COMMAND...: runs COMMAND with its output in build/logs/LOG.log. Says nothing about
# a command that succeeds within a second.
step() {
    local text=$1 log=$LOGS/$2.log start=$SECONDS status=0
    shift 2
    mkdir -p "$LOGS"
    "$@" >"$log" 2>&1 &
    local work=$!
    watch_step "$text" "$log" &
    local watch=$!
    # A background command ignores the terminal's interrupt, so pass it on.
    trap 'kill "$work" "$watch" 2>/dev/null; exit 130' INT TERM
    wait "$work" || status=$?
    trap - INT TERM
    kill "$watch" 2>/dev/null || true
    wait "$watch" 2>/dev/null || true
    if [[ -t 1 ]]; then printf '\r\033[K'; fi
    if ((status != 0)); then
        printf '%s failed (exit status %d). The end of its log:\n' "$text" "$status" >&2
        tail -n 40 "$log" | sed 's/^/    /' >&2
        printf 'The whole log: %s\n' "$log" >&2
        return "$status"
    fi
    if ((SECONDS - start >= 1)); then printf '%s: done in %d s\n' "$text" $((SECONDS - start)); fi
}
