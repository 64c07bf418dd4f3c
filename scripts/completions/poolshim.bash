# SPDX-License-Identifier: MIT
# Completion of poolshim for bash. Made by scripts/dev/gen-man from the command's own parsers.

_poolshim() {
    local word=${COMP_WORDS[COMP_CWORD]} previous= command=${COMP_WORDS[1]} i
    local options= programs= files= folders= words=
    COMPREPLY=()
    if [ "$COMP_CWORD" = 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W 'advise compare doctor explain exporter profile run set stats top trim tune --help --version' -- "$word")
        return
    fi
    case $command in
    advise)
        options='-o --output --read --size --once --server --load --ready --top --json -h --help'
        files='-o --output --read'
        folders=''
        words='--size --server --load --ready --top'
        programs=yes
        ;;
    compare)
        options='--allocators --add --setting --tuned --table --base --runs --warmup --time-budget --timeout --seed --no-noise --rss-curve --stdin --cwd --prepare --ignore-failure --discard-output --server --load --ready --ready-timeout --from --json --csv --markdown --html -q --quiet --no-color --help'
        files='--add --table --stdin --from --json --csv --markdown --html'
        folders='--cwd'
        words='--allocators --setting --base --runs --warmup --time-budget --timeout --seed --prepare --server --load --ready --ready-timeout'
        programs=yes
        ;;
    doctor)
        options='--run --settings --json -q --quiet -h --help'
        files=''
        folders=''
        words=''
        programs=yes
        ;;
    explain)
        options='--html --json --top --fold --no-fold --interval --every --verify --rounds --server --load --ready --rest --pid --seconds -h --help'
        files='--html'
        folders=''
        words='--top --fold --interval --every --rounds --server --load --ready --rest --pid --seconds'
        programs=
        ;;
    exporter)
        options='--listen --once -h --help'
        files=''
        folders=''
        words='--listen'
        programs=
        ;;
    profile)
        options='-o --output --pid --seconds --read --diff --leaks --flame --names --fold --no-fold --interval --alloc --top --json -h --help'
        files='-o --output --read --flame'
        folders=''
        words='--pid --seconds --fold --interval --top'
        programs=
        ;;
    run)
        options='--allocator --tuned --env --force --dry-run --settings --version --help --size-classes --small-max --mmap-min --cache-max --purge-delay-ms --background --limit --thp --foreign --harden --guard-sample --guard-slots --stats --stats-every --dump-signal --record --trace --trace-max --profile --profile-interval --profile-max --profile-peak --profile-every --profile-seed --verbose --strict --conf'
        files='--allocator --tuned --record --trace --profile'
        folders=''
        words='--env --size-classes --small-max --mmap-min --cache-max --purge-delay-ms --background --limit --thp --foreign --harden --guard-sample --guard-slots --stats-every --dump-signal --trace-max --profile-interval --profile-max --profile-every --profile-seed --conf'
        programs=yes
        ;;
    set)
        options='--json -h --help'
        files=''
        folders=''
        words=''
        programs=
        ;;
    stats)
        options='--json -h --help'
        files=''
        folders=''
        words=''
        programs=
        ;;
    top)
        options='--once --json --interval -h --help'
        files=''
        folders=''
        words='--interval'
        programs=
        ;;
    trim)
        options='--timeout --json -h --help'
        files=''
        folders=''
        words='--timeout'
        programs=
        ;;
    tune)
        options='--runs --recording --tuned -o --output --picture --held-out --server --load --ready --stdin --cwd --ignore-failure --max-classes --rounds --least-gain --timeout --no-verify --check --json -q --quiet --no-color --help'
        files='--recording --tuned -o --output --picture --stdin --cwd'
        folders=''
        words='--runs --held-out --server --load --ready --max-classes --rounds --least-gain --timeout'
        programs=yes
        ;;
    *) return ;;
    esac

    # The first word that is neither an option nor its value begins the program's own command line.
    for ((i = 2; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        --)
            i=$((i + 1))
            break
            ;;
        =) ;;
        -*) case " $files $folders $words " in *" ${COMP_WORDS[i]} "*) i=$((i + 1)) ;; esac ;;
        *) break ;;
        esac
    done
    if ((i < COMP_CWORD)) || [ "${COMP_WORDS[i - 1]}" = -- ]; then
        [ -z "$programs" ] || _poolshim_program "$i"
        return
    fi
    previous=${COMP_WORDS[COMP_CWORD - 1]}
    [ "$previous" != = ] || previous=${COMP_WORDS[COMP_CWORD - 2]}
    case " $files " in *" $previous "*)
        mapfile -t COMPREPLY < <(compgen -f -- "${word#=}")
        compopt -o filenames
        return
        ;;
    esac
    case " $folders " in *" $previous "*)
        mapfile -t COMPREPLY < <(compgen -d -- "${word#=}")
        compopt -o filenames
        return
        ;;
    esac
    case "$command $previous" in
    'run --background')
        mapfile -t COMPREPLY < <(compgen -W 'auto 0 1' -- "${word#=}")
        return
        ;;
    'run --thp')
        mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "${word#=}")
        return
        ;;
    'run --foreign')
        mapfile -t COMPREPLY < <(compgen -W 'abort warn ignore' -- "${word#=}")
        return
        ;;
    'run --dump-signal')
        mapfile -t COMPREPLY < <(compgen -W 'off HUP QUIT USR1 USR2 WINCH' -- "${word#=}")
        return
        ;;
    esac
    case " $words " in *" $previous "*) return ;; esac
    if [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
    elif [ -n "$programs" ]; then
        _poolshim_program "$i"
    fi
}

# Completes the program that poolshim starts, from word $1 on, as bash does without poolshim.
_poolshim_program() {
    if [ "$COMP_CWORD" = "$1" ]; then
        mapfile -t COMPREPLY < <(compgen -c -- "${COMP_WORDS[COMP_CWORD]}")
    elif declare -F _command_offset >/dev/null; then
        _command_offset "$1"
    else
        mapfile -t COMPREPLY < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
        compopt -o filenames
    fi
}

complete -F _poolshim poolshim
