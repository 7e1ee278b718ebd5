# SPDX-License-Identifier: BSD-2-Clause
# bash completion for redlock(1)
# shellcheck shell=bash

# It asks the program itself for the options, so they match the installed version.
_redlock_options() {
    redlock help "$1" 2>/dev/null | sed -n 's/^ *\(-., \)\{0,1\}\(--[a-z-]*\).*/\2/p'
}

_redlock_word_of_command() {
    # After `run RESOURCE` or `up`, another command line follows.
    local i words=0 skip=0
    for ((i = 2; i < COMP_CWORD; i++)); do
        if ((skip)); then
            skip=0
            continue
        fi
        case ${COMP_WORDS[i]} in
        --)
            COMP_COMMAND_AT=$((i + 1))
            return 0
            ;;
        -N | -t | -w | -E | -o | -k | -g | -p | -d | -c | -i) skip=1 ;;
        -n) [[ $1 == up ]] && skip=1 ;;
        --nonblock | --no-syslog | --confirm | --json | --quiet | --verbose | --tokens | --watch | --once | --all | --help | --*=*) ;;
        --*) skip=1 ;;
        -*) ;;
        *)
            words=$((words + 1))
            if [[ $1 == run || $1 == gate ]] && ((words == 2)) || [[ $1 == up ]]; then
                COMP_COMMAND_AT=$i
                return 0
            fi
            ;;
        esac
    done
    [[ $1 == run || $1 == gate ]] && ((words == 1)) && [[ ${COMP_WORDS[COMP_CWORD]} != -* ]] && COMP_COMMAND_AT=$COMP_CWORD
}

_redlock() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]-}
    local COMP_COMMAND_AT=0
    COMPREPLY=()
    if ((COMP_CWORD == 1)) || [[ $command == help ]]; then
        mapfile -t COMPREPLY < <(compgen -W 'run acquire extend release show break wait top doctor quorum gate serve up bench sim help version' -- "$current")
        return
    fi
    case $command in
    run | gate | up) _redlock_word_of_command "$command" ;;
    esac
    if ((COMP_COMMAND_AT > 0)); then
        if declare -F _command_offset >/dev/null; then
            _command_offset "$COMP_COMMAND_AT"
        elif ((COMP_COMMAND_AT == COMP_CWORD)); then
            mapfile -t COMPREPLY < <(compgen -c -- "$current")
        else
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
        fi
        return
    fi
    case $previous in
    --tls-ca-file | --tls-cert-file | --tls-key-file | --status-file | --metrics-file | --server | --plot | --password-file)
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        return
        ;;
    --dir | -d)
        mapfile -t COMPREPLY < <(compgen -d -- "$current")
        return
        ;;
    --break)
        mapfile -t COMPREPLY < <(compgen -W 'data-loss clock-step pause-write mixed-config' -- "$current")
        return
        ;;
    --mode)
        local modes='auto classic guarded'
        [[ $command == up ]] && modes='classic guarded'
        [[ $command == bench ]] && modes='single classic guarded'
        mapfile -t COMPREPLY < <(compgen -W "$modes" -- "$current")
        return
        ;;
    --only)
        local names=''
        [[ $current == *,* ]] && names=${current%,*},
        mapfile -t COMPREPLY < <(compgen -P "$names" -W "$(redlock bench --list 2>/dev/null | sed 's/ .*//')" -- "${current##*,}")
        return
        ;;
    --on-lost)
        mapfile -t COMPREPLY < <(compgen -W 'term ignore' -- "$current")
        return
        ;;
    --scripts)
        mapfile -t COMPREPLY < <(compgen -W 'confined unconfined known' -- "$current")
        return
        ;;
    --busy-poll)
        mapfile -t COMPREPLY < <(compgen -W 'yes no' -- "$current")
        return
        ;;
    esac
    if [[ $command == gate && $current != -* && $previous != --fence ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        return
    fi
    if [[ $command == quorum && $current != -* && $COMP_CWORD == 2 ]]; then
        mapfile -t COMPREPLY < <(compgen -W 'init status add remove replace set-ttl-max' -- "$current")
        return
    fi
    if [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_redlock_options "$command")" -- "$current")
    fi
}

complete -F _redlock redlock
