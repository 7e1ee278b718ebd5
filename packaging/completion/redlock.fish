# SPDX-License-Identifier: BSD-2-Clause
# fish completion for redlock(1)

# It asks the program itself for commands and options, so they match the installed version.

function __redlock_list --description 'Commands, or the verbs of a command: name, summary'
    redlock help $argv 2>/dev/null | sed -n '/^Commands:/,/^$/s/^  \([a-z-][a-z-]*\)\( [A-Z ]*[A-Z]\)\{0,1\}  *\(.*\)$/\1\t\3/p'
end

# One line for each option: letter or -, long name, value or -, whether it may be left out, help.
function __redlock_table
    redlock help $argv 2>/dev/null | sed -n -E \
        -e 's/^  +(-(.), )?--([a-z-]+)\[=([A-Z]+)\] +(.*)$/\2\t\3\t\4\toptional\t\5/p' \
        -e 's/^  +(-(.), )?--([a-z-]+) ([^ ]+) +(.*)$/\2\t\3\t\4\trequired\t\5/p' \
        -e 's/^  +(-(.), )?--([a-z-]+)  +(.*)$/\2\t\3\t\tnone\t\4/p' \
        -e 's/^  +(-(.), )?--([a-z-]+)$/\2\t\3\t\tnone\t/p'
end

function __redlock_tokens --description 'The words before the cursor, without redlock itself'
    set -l words (commandline -opc)
    string join \n -- $words[2..-1]
end

function __redlock_command
    set -l words (__redlock_tokens)
    test -n "$words[1]"; and echo $words[1]
end

# The command and, where one is typed, its verb.
function __redlock_subject
    set -l words (__redlock_tokens)
    set -q words[1]; or return
    echo $words[1]
    set -l verbs (__redlock_list $words[1] | string replace -r '\t.*' '')
    for word in $words[2..-1]
        if contains -- $word $verbs
            echo $word
            return
        end
    end
end

function __redlock_options
    set -l subject (__redlock_subject)
    set -q subject[1]; or return
    contains -- $subject[1] help version; and return
    __redlock_table $subject | while read -l -d \t letter name value kind help
        echo --$name\t$help
        test -n "$letter"; and echo -- -$letter\t$help
    end
end

# The option whose value is being typed as a word of its own; nothing: there is none.
function __redlock_open_option
    set -l words (__redlock_tokens)
    set -l last $words[-1]
    string match -q -- '-*' $last; or return
    string match -q -- '*=*' $last; and return
    __redlock_table (__redlock_subject) | while read -l -d \t letter name value kind help
        test $kind = required; or continue
        test "$last" = "--$name" -o "$last" = "-$letter"; and echo $name $value
    end
end

function __redlock_values
    set -l option (__redlock_open_option | string split ' ')
    set -q option[1]; or return
    switch $option[1]
        case mode
            switch (__redlock_command)
                case up
                    printf '%s\n' classic guarded
                case bench
                    printf '%s\n' single classic guarded
                case '*'
                    printf '%s\n' auto classic guarded
            end
        case on-lost
            printf '%s\n' term ignore
        case scripts
            printf '%s\n' confined unconfined known
        case busy-poll
            printf '%s\n' yes no
        case break
            printf '%s\n' data-loss clock-step pause-write mixed-config
        case only
            set -l before (string replace -r '[^,]*$' '' -- (commandline -ct))
            printf '%s\n' $before(redlock bench --list 2>/dev/null | string replace -r ' .*' '')
        case '*'
            switch $option[2]
                case FILE
                    __fish_complete_path (commandline -ct)
                case DIR
                    __fish_complete_directories (commandline -ct) ''
            end
    end
end

# The words of another program's command line, which run, elect, gate and up take; status 1: not there yet.
function __redlock_another
    set -l words (__redlock_tokens)
    set -l operands
    switch "$words[1]"
        case run elect gate
            set operands 1
        case up
            set operands 0
        case '*'
            return 1
    end
    set -l valued (__redlock_table $words[1] | while read -l -d \t letter name value kind help
        test $kind = required; or continue
        echo -- --$name
        test -n "$letter"; and echo -- -$letter
    end)
    set -e words[1]
    set -l before
    while set -q words[1]
        set -l word $words[1]
        set before $word
        if test "$word" = --
            set -e words[1]
            test $operands -gt 0; and continue
            break
        else if contains -- $word $valued
            set -e words[1]
            set -q words[1]; or return 1
        else if not string match -q -- '-*' $word
            test $operands -eq 0; and break
            set operands (math $operands - 1)
        else if test $operands -eq 0
            # an option after the resource belongs to no program yet
            break
        end
        set -e words[1]
    end
    test $operands -eq 0; or return 1
    not set -q words[1]; and test "$before" != --; and string match -q -- '-*' (commandline -ct); and return 1
    string join \n -- $words
    return 0
end

function __redlock_complete_another
    set -l words (__redlock_another)
    set -l rest (string join ' ' -- (string escape -- $words) (commandline -ct))
    complete "-C$rest"
end

function __redlock_wants_list
    set -l words (__redlock_tokens)
    test (count $words) -eq 0; or test (count $words) -eq 1 -a "$words[1]" = help
end

function __redlock_wants_verb
    set -l words (__redlock_tokens)
    if test "$words[1]" = help
        test (count $words) -eq 2
        return
    end
    test -z "$(__redlock_open_option)" -a (count (__redlock_subject)) -eq 1
end

function __redlock_verbs
    set -l words (__redlock_tokens)
    test "$words[1]" = help; and set -e words[1]
    __redlock_list $words[1]
end

function __redlock_wants_option
    test -n "$(__redlock_command)" -a -z "$(__redlock_open_option)"; and not __redlock_another >/dev/null
end

function __redlock_wants_file
    set -l words (__redlock_tokens)
    test "$words[1]" = gate -a -z "$(__redlock_open_option)"; and not __redlock_another >/dev/null
end

complete -c redlock -f
complete -c redlock -n __redlock_wants_list -a '(__redlock_list)'
complete -c redlock -n __redlock_wants_option -n __redlock_wants_verb -a '(__redlock_verbs)'
complete -c redlock -n __redlock_wants_option -a '(__redlock_options)'
complete -c redlock -n 'test -n "$(__redlock_open_option)"' -a '(__redlock_values)'
complete -c redlock -n __redlock_wants_file -F
complete -c redlock -n '__redlock_another >/dev/null' -a '(__redlock_complete_another)'
