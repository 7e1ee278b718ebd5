# SPDX-License-Identifier: BSD-2-Clause
#
# Shows the headers' comments to doxygen, which reads /** and /**< only, and writes the tables of
# results and verdicts out as the enumerations that they are. A comment above several declarations
# belongs to each of them.

function is_table_row() { return match($0, /X\(REDLOCK_[A-Z_]+, -?[0-9]+, ".*"\)/) }

NR == 1 && /^\/\* SPDX/ {
    print "/** @file"
    next
}
/^\/\* ----/ || /^#(define|undef) REDLOCK_ENUM/ { next }
/^#define REDLOCK_[A-Z]+\(X\)/ {
    table = $2
    sub(/\(X\)/, "", table)
    next
}
table != "" && is_table_row() {
    row = substr($0, RSTART + 2, RLENGTH - 3)
    comma = index(row, ",")
    name = substr(row, 1, comma - 1)
    rest = substr(row, comma + 2)
    comma = index(rest, ",")
    text = substr(rest, comma + 2)
    gsub(/"/, "", text)
    rows[table] = rows[table] "    " name " = " substr(rest, 1, comma - 1) ", /**< " text " */\n"
    if ($0 !~ /\\$/) table = ""
    next
}
/^    REDLOCK_[A-Z]+\(REDLOCK_ENUM\)/ {
    name = $1
    sub(/\(.*/, "", name)
    printf "%s", rows[name]
    next
}
/^\/\* / { comment = "" }
/^[[:space:]]*\/\* / { sub(/\/\*/, "/**") }
/[^[:space:]].*\/\* / && !/^[[:space:]]*\/\*\*/ { sub(/\/\* /, "/**< ") }
/^\/\*\*/ { inside = 1 }
inside { comment = comment $0 "\n" }
inside && /\*\/$/ {
    inside = 0
    fresh = 1
    print
    next
}
/^REDLOCK_API/ && !fresh { printf "%s", comment }
/^(REDLOCK_API|typedef|struct|enum|$)/ { fresh = 0 }
{ print }
