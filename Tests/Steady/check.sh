#!/usr/bin/env bash
# Runs rules of the Makefile one after the other, and lists at the end which have passed and how long each took. The
# output of each is kept in .run/check. The exit status is 1 if one has failed.
#
#     check.sh "RULE VARIABLE=VALUE"...
set -u
cd "$(dirname "$0")/../.."
mkdir -p .run/check
table=""
status=0
for step in "$@"; do
    log=".run/check/${step//[^A-Za-z0-9]/-}.log"
    start=$SECONDS
    echo "== make $step"
    # Split into the rule and its variables.
    # shellcheck disable=SC2086
    if make $step >"$log" 2>&1; then result=passed; else result=FAILED status=1; tail -20 "$log"; fi
    table+=$(printf '%-28s %-7s %6d s   %s' "$step" "$result" $((SECONDS - start)) "$log")$'\n'
done
printf '\n%s' "$table"
exit $status
