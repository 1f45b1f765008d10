#!/bin/sh
# Creates git worktrees one at a time: a WorktreeCreate hook of Claude Code. It gets JSON with a name on standard
# input, and prints the path of the new worktree. Needs jq, and git 2.31 or later.
set -eu

name=$(jq -er '.name // .worktree_name')
repository=$(git rev-parse --path-format=absolute --git-common-dir)
worktree=$(dirname -- "$repository")/.claude/worktrees/$name

# Standard output is for the path only.
tenure run --wait 5m "worktree:$repository" -- git worktree add --quiet -b "worktree-$name" "$worktree" >&2
printf '%s\n' "$worktree"
