# SPDX-License-Identifier: MIT
"""Completions for bash, zsh and fish, from the subcommands and options of the command.

For make_manuals.py. Where a command runs a program, the shell's own completion of that program
takes over after our options.
"""

from __future__ import annotations

from command_facts import Command, Option

NOTE = "Made by scripts/manuals/make_manuals.py."
FISH_ACTIONS = {"nothing": [], "word": ["-x"], "file": ["-r", "-F"],
                "folder": ["-x", "-a '(__fish_complete_directories)'"]}  # fmt: skip
BASH = """\
# SPDX-License-Identifier: MIT
# Completion of poolshim for bash. @NOTE@

_poolshim() {
    local word=${COMP_WORDS[COMP_CWORD]} previous= command=${COMP_WORDS[1]} i
    local options= programs= files= folders= words=
    COMPREPLY=()
    if [ "$COMP_CWORD" = 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W '@COMMANDS@ --help --version' -- "$word")
        return
    fi
    case $command in
@CASES@
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
@CHOICES@
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
"""


def takers(command: Command, kind: str) -> str:
    """The names of the options that take such a value."""
    options = [*command.options, *command.settings]
    return " ".join(name for one in options if one.takes == kind for name in one.names)


def names_of(command: Command) -> str:
    return " ".join(n for one in [*command.options, *command.settings] for n in one.names)


def bash(commands: list[Command]) -> str:
    """One function."""
    cases, choices = [], []
    for one in commands:
        cases += [
            f"    {one.name})",
            f"        options='{names_of(one)}'",
            f"        files='{takers(one, 'file')}'",
            f"        folders='{takers(one, 'folder')}'",
            f"        words='{takers(one, 'word')}'",
            f"        programs={'yes' if one.runs_a_program else ''}",
            "        ;;",
        ]
        for option in one.settings:
            if option.choices:
                choices += [
                    f"    '{one.name} {option.names[0]}')",
                    "        mapfile -t COMPREPLY < "
                    f"<(compgen -W '{' '.join(option.choices)}' -- \"${{word#=}}\")",
                    "        return",
                    "        ;;",
                ]
    text = BASH.replace("@CASES@", "\n".join(cases)).replace("@CHOICES@", "\n".join(choices))
    return text.replace("@COMMANDS@", " ".join(one.name for one in commands)).replace(
        "@NOTE@", NOTE)


def zsh_quoted(text: str) -> str:
    """For a description between single quotes and brackets."""
    return text.replace("'", "'\\''").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")


def first_clause(option: Option) -> str:
    """A line's worth of the help."""
    text = option.help.split(". ")[0].split(" [")[0].split("; ")[0].split(": ")[0].rstrip(".")
    text = text if len(text) <= 48 else text[:44].rpartition(" ")[0] + " ..."
    return text[:1].lower() + text[1:] if not text[:2].isupper() else text


def zsh_option(option: Option) -> list[str]:
    action = {"nothing": "", "file": ":file:_files", "folder": ":folder:_files -/",
              "word": f":{zsh_quoted(option.metavar.strip(chr(39)))}: "}[option.takes]  # fmt: skip
    if option.choices:
        action = f":{option.metavar}:({' '.join(option.choices)})"
    is_last = set(option.names) & {"--help", "--version"}
    text = zsh_quoted(first_clause(option))
    specs = []
    for name in option.names:
        has_value = option.takes != "nothing"
        joint = "=" if has_value and name.startswith("--") else ""
        specs.append(f"'{'(- *)' if is_last else ''}{name}{joint}[{text}]{action}'")
    return specs


def zsh(commands: list[Command]) -> str:
    """A function file for $fpath."""
    lines = ["#compdef poolshim", "# SPDX-License-Identifier: MIT",
             f"# Completion of poolshim for zsh. {NOTE}", "", "_poolshim() {",
             "    local context state state_descr line", "    typeset -A opt_args",
             "    _arguments -C '(- *)--help[print a summary]' "
             "'(- *)--version[print the version]' \\",
             "        '1: :->command' '*:: :->rest'",
             "    if [[ $state == command ]]; then", "        local -a commands=("]  # fmt: skip
    lines += [f"            '{one.name}:{zsh_quoted(one.summary)}'" for one in commands]
    lines += ["        )", "        _describe command commands", "        return", "    fi",
              "    case $line[1] in"]  # fmt: skip
    for one in commands:
        lines += [f"    {one.name})", "        _arguments -S \\"]
        for option in [*one.options, *one.settings]:
            lines += [f"            {spec} \\" for spec in zsh_option(option)]
        rest = ("'(-)1:program: _command_names -e' '*::arguments: _normal'" if one.runs_a_program
                else "'1:process:_pids'")  # fmt: skip
        lines += [f"            {rest}", "        ;;"]
    return "\n".join([*lines, "    esac", "}", "", '_poolshim "$@"']) + "\n"


def fish_quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def fish(commands: list[Command]) -> str:
    """One line per option."""
    names = " ".join(one.name for one in commands)
    lines = ["# SPDX-License-Identifier: MIT", f"# Completion of poolshim for fish. {NOTE}", "",
             "function __poolshim_programs",
             "    set -l words (commandline -opc)",
             "    test (count $words) -ge 2; and contains -- $words[2] "
             + " ".join(one.name for one in commands if one.runs_a_program), "end", "",
             f"set -l start 'not __fish_seen_subcommand_from {names}'",
             "complete -c poolshim -f",
             "complete -c poolshim -n $start -l help -d 'print a summary'",
             "complete -c poolshim -n $start -l version -d 'print the version'"]  # fmt: skip
    for one in commands:
        summary = fish_quoted(one.summary)
        lines.append(f"complete -c poolshim -n $start -a {one.name} -d '{summary}'")
    lines.append("complete -c poolshim -n __poolshim_programs "
                 "-x -a '(__fish_complete_subcommand --fcs-skip=2)'")  # fmt: skip
    for one in commands:
        lines += ["", f"set -l {one.name} '__fish_seen_subcommand_from {one.name}'"]
        for option in [*one.options, *one.settings]:
            words = [f"complete -c poolshim -n ${one.name}"]
            words += [f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names]
            words += FISH_ACTIONS[option.takes]
            if option.choices:
                words += [f"-a '{' '.join(option.choices)}'"]
            lines.append(" ".join([*words, f"-d '{fish_quoted(first_clause(option))}'"]))
        if not one.runs_a_program:
            lines.append(f"complete -c poolshim -n ${one.name} -x -a '(__fish_complete_pids)'")
    return "\n".join(lines) + "\n"


def made(commands: list[Command]) -> dict[str, str]:
    """File name -> content, named as each shell wants it."""
    return {"poolshim.bash": bash(commands), "_poolshim": zsh(commands),
            "poolshim.fish": fish(commands)}  # fmt: skip
