# SPDX-License-Identifier: BSD-2-Clause
# bash completion for redlock(1)
# shellcheck shell=bash

# It asks the program itself for commands and options, so they match the installed version.
_redlock_list() { # [COMMAND]: its verbs, or all commands
    redlock help "$@" 2>/dev/null | sed -n '/^Commands:/,/^$/s/^  \([a-z-]*\) .*/\1/p'
}

_redlock_options() { # COMMAND [VERB]
    redlock help "$@" 2>/dev/null | sed -n 's/^ *\(-., \)\{0,1\}\(--[a-z-]*\).*/\2/p'
}

_redlock_valued_options() { # COMMAND: those whose value is the next word
    redlock help "$1" 2>/dev/null | sed -n -e 's/^ *\(-.\), --[a-z-]* [^ ].*/\1/p' -e 's/^ *\(-., \)\{0,1\}\(--[a-z-]*\) [^ ].*/\2/p'
}

_redlock_word_of_command() {
    # After `run RESOURCE` or `up`, another command line follows.
    local i words=0 skip=0 valued
    valued=" $(_redlock_valued_options "$1" | tr '\n' ' ')"
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
        -*) [[ $valued == *" ${COMP_WORDS[i]} "* ]] && skip=1 ;;
        *)
            words=$((words + 1))
            if [[ $1 == run || $1 == elect || $1 == gate ]] && ((words == 2)) || [[ $1 == up ]]; then
                COMP_COMMAND_AT=$i
                return 0
            fi
            ;;
        esac
    done
    [[ $1 == run || $1 == elect || $1 == gate ]] && ((words == 1)) && [[ ${COMP_WORDS[COMP_CWORD]} != -* ]] && COMP_COMMAND_AT=$COMP_CWORD
}

_redlock() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]-}
    local COMP_COMMAND_AT=0
    COMPREPLY=()
    if ((COMP_CWORD == 1)) || [[ $command == help ]]; then
        local about=()
        ((COMP_CWORD > 2)) && about=("${COMP_WORDS[2]}")
        mapfile -t COMPREPLY < <(compgen -W "$(_redlock_list "${about[@]}")" -- "$current")
        return
    fi
    case $command in
    run | elect | gate | up) _redlock_word_of_command "$command" ;;
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
    --config | --tls-ca-file | --tls-cert-file | --tls-key-file | --status-file | --write-config | --metrics-file | --server | --module | --plot | --password-file)
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
    if [[ $current != -* && $COMP_CWORD == 2 ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_redlock_list "$command")" -- "$current")
        return
    fi
    if [[ $current == -* ]]; then
        local verb=()
        [[ " $(_redlock_list "$command" | tr '\n' ' ')" == *" ${COMP_WORDS[2]} "* ]] && verb=("${COMP_WORDS[2]}")
        mapfile -t COMPREPLY < <(compgen -W "$(_redlock_options "$command" "${verb[@]}")" -- "$current")
    fi
}

complete -F _redlock redlock
