#!/bin/sh
# Denies edits of paths that another session has claimed with `tenure take --path`: a PreToolUse hook of Claude Code
# for Edit, Write and NotebookEdit. TENURE_CLAIM names the claim of this session. Needs jq.
#
# Claude Code denies an edit only for exit code 2, so every failure ends with 2.
set -eu
trap '[ $? -eq 0 ] || exit 2' EXIT

deny() {
    printf '%s\n' "$1" >&2
    exit 2
}

command -v jq >/dev/null || deny "no edit is allowed: deny-edit.sh needs jq"
file=$(jq -er '.tool_input | .file_path // .notebook_path') || deny "no edit is allowed: the input names no file"
case $file in /*) ;; *) file=$PWD/$file ;; esac
[ ! -L "$file" ] || file=$(readlink -f -- "$file")

# The nearest directory that exists, and the path below it.
path=$(basename -- "$file")
top=$(dirname -- "$file")
until [ -d "$top" ]; do
    path=$(basename -- "$top")/$path
    top=$(dirname -- "$top")
done
case /$path/ in */../*) deny "no edit is allowed: the path $file contains .." ;; esac

# Claims count from the top of the work tree.
top=$(cd -- "$top" && pwd -P)
until [ -e "$top/.git" ]; do
    [ "$top" != / ] || exit 0
    path=$(basename -- "$top")/$path
    top=$(dirname -- "$top")
done

# The locks of this session. Those of a lost claim are not among the holders any more.
own='[]'
[ -z "${TENURE_CLAIM:-}" ] || own=$(tenure show --json | jq -cs '[.[].keys[].id]')

holders=$(tenure ps --json path:) || deny "no edit is allowed: the claims cannot be read"
claims=$(printf '%s\n' "$holders" | jq -r --arg path "path:$path" --argjson own "$own" '
    select(.id as $id | $own | index($id) | not)
    | select(.key == $path or (.kind == "exclusive"
        and (.key as $key | $key == "path:." or ($path | startswith($key + "/")))))
    | "\(.key) is claimed by \(.owner) \(.note)"')
[ -z "$claims" ] || deny "$claims"
