# Makes a shell's completion for every command of a program from the output of PROGRAM --describe
# (format/cli/options.h).
# Usage: awk -v shell=bash|zsh -f completion.awk.
BEGIN { FS = "\t" }

# What an argument takes: "files", "folders", or "" if neither is known; after a blank, words that it also takes.
# "auto|cuda[:I]" are words, "N|HxW" are not; "DIR|none" is folders and a word; "[DIR]" may be left out.
function takes(argument,    word, count, i, words, kind) {
    if (argument ~ /^\[.*\]$/) argument = substr(argument, 2, length(argument) - 2)
    count = split(argument, word, "|")
    for (i = 1; i <= count; i++) {
        sub(/\[.*/, "", word[i])
        if (word[i] ~ /^(FILE|PATH)$/) kind = "files"
        else if (word[i] ~ /^(DIR|OUT|SET|FOLDER)$/) kind = "folders"
        else if (word[i] ~ /^[a-z][a-z0-9_-]*$|^[0-9]+$/) words = words " " word[i]
        else return ""
    }
    return kind words
}
function name(command) {
    gsub(/[^a-z]/, "_", command)
    return "_" command
}

$1 == "command" {
    command[++commands] = $2
    if (commands == 1) program = $2
    else {
        subcommand = $2
        sub(/.* /, "", subcommand)
        subcommands = subcommands (subcommands ? " " : "") subcommand
    }
    options[commands] = 0
}
function add(long, letter, argument, help) {
    options[commands]++
    long_of[commands, options[commands]] = long
    letter_of[commands, options[commands]] = letter
    argument_of[commands, options[commands]] = argument
    help_of[commands, options[commands]] = help
}
$1 == "version" { add("help", "h", "", "print the options"); add("version", "", "", "print the version") }
$1 == "option" { add($2, $3, $4, $5) }

function bash_completion(    i, j, what, cases, words, kind) {
    print "# bash completion of " program ", made from its options."
    print "_" program "() {"
    print "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command=" program " options words= files="
    print "    # bash takes the \"=\" of --option=value for a word."
    print "    if [ \"$current\" = = ]; then current=; elif [ \"$previous\" = = ]; then previous=${COMP_WORDS[COMP_CWORD - 2]}; fi"
    if (subcommands) {
        cases = subcommands
        gsub(/ /, " | ", cases)
        print "    [ \"$COMP_CWORD\" -eq 1 ] || case ${COMP_WORDS[1]} in " cases ") command=\"" program " ${COMP_WORDS[1]}\" ;; esac"
    }
    print "    case $command in"
    for (i = 1; i <= commands; i++) {
        words = ""
        for (j = 1; j <= options[i]; j++) words = words " --" long_of[i, j] (letter_of[i, j] ? " -" letter_of[i, j] : "")
        print "    '" command[i] "') options='" substr(words, 2) "' ;;"
    }
    print "    esac"
    print "    case \"$command $previous\" in"
    for (i = 1; i <= commands; i++)
        for (j = 1; j <= options[i]; j++) {
            if (argument_of[i, j] == "") continue
            what = takes(argument_of[i, j])
            printf "    '%s --%s'", command[i], long_of[i, j]
            if (letter_of[i, j]) printf " | '%s -%s'", command[i], letter_of[i, j]
            kind = words = what
            sub(/ .*/, "", kind)
            if (!sub(/^[a-z]* /, "", words)) words = ""
            print ")" (words == "" ? "" : " words='" words "'") (kind == "" ? "" : " files=" (kind == "files" ? "-f" : "-d")) " ;;"
        }
    print "    *)"
    print "        case $current in"
    print "        -*) words=$options ;;"
    print "        *) files=-f" (subcommands ? "; [ \"$COMP_CWORD\" -ne 1 ] || words='" subcommands "'" : "") " ;;"
    print "        esac ;;"
    print "    esac"
    print "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\"; [ -z \"$files\" ] || compgen \"$files\" -- \"$current\")"
    print "    [ -z \"$files\" ] || compopt -o filenames 2>/dev/null"
    print "}"
    print "complete -F _" program " " program
}

function quoted(text) {
    gsub(/'/, "'\\''", text)
    gsub(/[][]/, "\\\\&", text)
    return text
}
function without_colons(text) {
    gsub(/'/, "'\\''", text)
    gsub(/:/, "\\:", text)
    return text
}
# A blank before an action keeps _arguments from adding words to it; a colon would end the action.
function zsh_action(what,    kind, words, files) {
    kind = words = what
    sub(/ .*/, "", kind)
    if (!sub(/^[a-z]* /, "", words)) words = ""
    files = kind == "files" ? "_files" : kind == "folders" ? "_files -/" : ""
    if (words == "" || kind == "") return words == "" ? files : "(" words ")"
    return " _alternative \"words\\:word\\:(" words ")\" \"files\\:file\\:" files "\""
}
function zsh_completion(    i, j, spec) {
    print "#compdef " program
    print "# zsh completion of " program ", made from its options."
    for (i = 1; i <= commands; i++) {
        print name(command[i]) "_options() {"
        print "    _arguments -s -S : \\"
        for (j = 1; j <= options[i]; j++) {
            spec = "'[" quoted(help_of[i, j]) "]" (argument_of[i, j] == "" ? "" : ":" without_colons(argument_of[i, j]) ":" zsh_action(takes(argument_of[i, j]))) "'"
            print "        '--" long_of[i, j] (argument_of[i, j] == "" ? "" : "=") "'" spec " \\"
            if (letter_of[i, j]) print "        '-" letter_of[i, j] (argument_of[i, j] == "" ? "" : "+") "'" spec " \\"
        }
        if (i == 1 && subcommands) print "        '1: :_alternative \"commands:command:(" subcommands ")\" \"files:file:_files\"' \\"
        print "        '*:file:_files'"
        print "}"
    }
    print "_" program "() {"
    if (subcommands) {
        cases = subcommands
        gsub(/ /, "|", cases)
        print "    if (( CURRENT > 2 )) && [[ $words[2] == (" cases ") ]]; then"
        print "        local command=$words[2]"
        print "        shift words; (( CURRENT-- ))"
        print "        _" program "_${command}_options"
        print "        return"
        print "    fi"
    }
    print "    _" program "_options"
    print "}"
    print "_" program " \"$@\""
}
END { if (shell == "zsh") zsh_completion(); else bash_completion() }
