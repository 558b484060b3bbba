# shellcheck shell=bash
# Messages and progress for the scripts. Sourced, never run.
# Everything here goes to standard error, so that the output of a command
# run through the scripts stays its own.

say() { printf '%s\n' "$*" >&2; }

# A missing prerequisite: one sentence that names what to do, status 2.
give_up() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 2
}

# help_asked FILE ARGUMENT...: prints the comment at the top of FILE and ends this shell, if one of its arguments before any '--'
# asks for help.
help_asked() {
    local file=$1 argument
    shift
    for argument; do
        case $argument in
        --) return ;;
        -h | --help)
            sed -n '2,${/^#/!q;s/^# \{0,1\}//p}' "$file"
            exit 0
            ;;
        esac
    done
}

no_crates() { give_up "The crates cannot be fetched (see above): allow this machine to reach crates.io, or set https_proxy."; }

have() { command -v "$1" >/dev/null 2>&1; }

# afterwards COMMAND...: runs COMMAND when this shell and all that it has started are gone, whatever has ended them.
afterwards() {
    # The pipe ends with the last who holds its other end.
    # shellcheck disable=SC2034
    exec {rw_afterwards}> >(
        trap '' HUP INT TERM
        cat >/dev/null
        "$@"
    )
}

# stage TEXT LOG COMMAND...: runs COMMAND with its output appended to LOG and
# shows one line with the elapsed seconds; on a terminal the line moves, else
# one comes every ten seconds.
# Returns COMMAND's status: the caller knows the sentence for a failure.
# COMMAND runs in a subshell; to die with the script even if that is killed by
# SIGKILL it should be, or exec, 'setpriv --pdeathsig KILL ...'.
stage() {
    local text=$1 log=$2 began=$SECONDS status=0 pid
    shift 2
    "$@" >>"$log" 2>&1 </dev/null &
    pid=$!
    # shellcheck disable=SC2064
    trap "kill -KILL $pid 2>/dev/null; wait $pid 2>/dev/null || true; exit 130" HUP INT TERM
    local shown=$began
    while kill -0 "$pid" 2>/dev/null; do
        if [[ -t 2 ]]; then
            printf '\r  %-58s %4d s ' "$text" $((SECONDS - began)) >&2
        elif ((SECONDS - shown >= 10)); then
            shown=$SECONDS
            printf '  %-58s %4d s ...\n' "$text" $((SECONDS - began)) >&2
        fi
        sleep 0.2
    done
    wait "$pid" || status=$?
    trap - HUP INT TERM
    [[ ! -t 2 ]] || printf '\r' >&2
    if ((status == 0)); then
        printf '  %-58s %4d s\n' "$text" $((SECONDS - began)) >&2
    else
        printf '  %-58s failed after %d s\n' "$text" $((SECONDS - began)) >&2
    fi
    return "$status"
}
