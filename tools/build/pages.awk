# Copies a page (Markdown) to a place that has other files than the source tree: a link to a file that is missing
# there becomes plain text. Links to other sites stay.
# Usage: awk -v page=PATH -v there='FILE[=PLACE] ...' -f pages.awk PATH; there: the files and folders of that
# place, with their PLACE if it is not their path in the tree. All paths are from the top of the tree.
BEGIN {
    RS = "\001" # the whole page, because a link's text may span lines
    count = split(there, names, " ")
    for (i = 1; i <= count; i++) {
        split(names[i], two, "=")
        place[two[1]] = two[2] != "" ? two[2] : two[1]
    }
    folder = page
    sub(/[^\/]*$/, "", folder)
    up = folder
    gsub(/[^\/]+\//, "../", up)
}
# The path without x/.. in it.
function normal(path) {
    while (match(path, /[^\/.]+\/\.\.\//)) path = substr(path, 1, RSTART - 1) substr(path, RSTART + RLENGTH)
    return path
}
# A link as it is in the copy.
function chosen(link,   text, target, part, path) {
    text = link
    sub(/\]\([^)]*\)$/, "", text)
    target = substr(link, length(text) + 3)
    sub(/\)$/, "", target)
    sub(/^!?\[/, "", text)
    part = target
    sub(/#.*/, "", part)
    if (part == "" || part ~ /:\/\//) return link
    path = normal(folder part)
    if (!(path in place)) return text
    if (place[path] == path) return link
    return "[" text "](" up place[path] substr(target, length(part) + 1) ")"
}
{
    rest = $0
    while (match(rest, /!?\[[^\]]*\]\([^) \n]*\)/)) {
        printf "%s", substr(rest, 1, RSTART - 1)
        link = substr(rest, RSTART, RLENGTH)
        rest = substr(rest, RSTART + RLENGTH)
        printf "%s", chosen(link)
    }
    printf "%s", rest
}
