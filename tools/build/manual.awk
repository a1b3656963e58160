# Makes a man page from the output of PROGRAM --describe (format/cli/options.h).
BEGIN { FS = "\t" }

function escaped(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    if (text ~ /^[.']/) text = "\\&" text
    return text
}

# Lines that begin with blanks are kept, others are joined.
function line(text) {
    if (text ~ /^  /) {
        if (!kept) print (text_began ? ".PP\n" : "") ".nf"
        kept = 1
        sub(/^  /, "", text)
    } else if (kept) {
        print ".fi"
        kept = 0
        if (text != "") print ".PP"
    }
    if (text == "") { blank = 1; return }
    if (blank && !kept && text_began) print ".PP"
    blank = 0
    text_began = 1
    print escaped(text)
}
function end_text() {
    if (kept) print ".fi"
    kept = blank = text_began = 0
}
function section(name) {
    end_text()
    print ".SH " name
}

# The command's options, then --help and --version, which all have.
function option(name, letter, argument, help) {
    print ".TP"
    print (letter ? "\\fB\\-" letter "\\fR, " : "") "\\fB" escaped("--" name) "\\fR" (argument ? " \\fI" escaped(argument) "\\fR" : "")
    print escaped(help)
}
function end_options() {
    if (!in_options) return
    in_options = 0
    end_text()
    if (!first) return
    print ".SS Also"
    option("help", "h", "", "Print this in short.")
    option("version", "", "", "Print the version.")
}

$1 == "command" {
    end_options()
    end_text()
    command = $2
    seen_options = in_epilogue = in_summary = in_usage = 0
    first = !commands++
    if (first) program = command
}
$1 == "version" && first { print ".TH " toupper(program) " 1 \"\" \"" program " " $2 "\" \"User commands\"" }
$1 == "usage" && first { usage[++usages] = $2 }
$1 == "usage" && !first {
    if (commands == 2 && !in_usage) section("OTHER COMMANDS")
    print ".SS " escaped($2)
    in_usage = 1
}
$1 == "summary" && first && !in_summary {
    in_summary = 1
    about = $2
    sub(/[,:.].*/, "", about)
    section("NAME")
    print program " \\- " tolower(substr(about, 1, 1)) escaped(substr(about, 2))
    section("SYNOPSIS")
    print ".nf"
    for (i = 1; i <= usages; i++) {
        sub(/^ */, "", usage[i])
        print "\\fB" escaped(usage[i]) "\\fR"
    }
    print ".fi"
    section("DESCRIPTION")
}
$1 == "summary" { line($2) }
$1 == "heading" || $1 == "option" {
    if (!seen_options && first) section("OPTIONS")
    if (!seen_options) end_text()
    seen_options = in_options = 1
}
$1 == "heading" && first { print ".SS " escaped($2) }
$1 == "heading" && !first { print ".PP\n" escaped($2) ":" }
$1 == "option" { option($2, $3, $4, $5) }
$1 == "epilogue" {
    end_options()
    if (first) {
        if ($2 ~ /^Examples?:/) { section("EXAMPLES"); next }
        if (sub(/^Exit codes: /, "", $2)) section("EXIT STATUS")
        else if (!in_epilogue) section("NOTES")
    } else if (!in_epilogue) print ".PP"
    in_epilogue = 1
    line($2)
}
END {
    end_options()
    section("SEE ALSO")
    count = split("ffpack ffinspect fftrain", all, " ")
    for (i = 1; i <= count; i++)
        if (all[i] != program) others = others (others ? ",\n" : "") ".BR " all[i] " (1)"
    gsub(/,\n/, " ,\n", others)
    print others
}
