# Reports statements of a migration that hold a lock on a table for long and for which squawk has no rule. The input is
# the part of a file that is applied; the variable `file` is the name to report. The comment `-- migration-lint: REASON`
# above a statement permits the statement.

function report(rule, text) {
    printf "%s:%d: error: %s %s\n", file, start, rule, text
    failed = 1
}

# check looks at one statement in lower case, whose comments and bodies of functions are removed.
function check(statement, permitted) {
    gsub(/[ \t\n]+/, " ", statement)
    sub(/^ /, "", statement)
    if (permitted || statement == "") return
    if (statement ~ /^(update|delete from|merge into) / || statement ~ /^with .*[( ](update|delete from) /)
        report("rows-rewritten", "Until the migration ends, the statement locks every row that it changes; let the service change the rows in bounded steps.")
    if (statement ~ /^(lock|truncate|cluster|vacuum) ?/ || (statement ~ /^(reindex|refresh materialized view) / && statement !~ / concurrently /))
        report("table-locked", "The statement locks the whole table.")
    if (statement ~ /^alter table / && statement ~ / (small|big)?serial[ ,;]?|generated always as \(.*\) stored|generated .* as identity|set (un)?logged|set tablespace|set access method/ )
        report("table-rewritten", "The statement rewrites the whole table, which stays locked meanwhile.")
    if (statement ~ /^do / && statement ~ /[ ;](alter|create|drop|update|delete|insert|lock|truncate|execute|perform) /)
        report("do-block", "Statements in a DO block are not checked; write them as statements of the migration.")
}

{
    line = tolower($0)
    if (line ~ /^[ \t]*-- migration-lint: ./) permitted = 1
    sub(/--.*/, "", line)
    while (line != "") {
        if (statement ~ /^[ \t\n]*$/ && line ~ /[^ \t]/) start = NR
        at = body ? index(line, quote) : match(line, /\$[a-z_0-9]*\$|;/)
        if (at == 0) break
        found = body ? quote : substr(line, RSTART, RLENGTH)
        before = substr(line, 1, at - 1)
        line = substr(line, at + length(found))
        if (body) {
            if (statement ~ /^[ \t\n]*do /) statement = statement " " before
            body = 0
        } else if (found == ";") {
            check(statement before " ", permitted)
            statement = ""
            permitted = 0
        } else {
            statement = statement before
            quote = found
            body = 1
        }
    }
    if (!body || statement ~ /^[ \t\n]*do /) statement = statement line " "
}

END { exit failed }
