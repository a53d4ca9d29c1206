#!/bin/bash
# storage_probe.sh DIRECTORY [rename] [keep]: write a small file, read it back and delete it, in a directory of this
# node's own. rename: it gets its name by a rename, as savers of checkpoints do. keep: nothing can be deleted there, so
# it stays, one a boot.
# Ends with 0 where all that works, with 3 where this user may not write there, and with 1 otherwise.
set -euo pipefail
export LC_ALL=C # the reasons below are looked for in English

node="$(uname -n)"
boot="$(cat "${TS_ROOT:-}/proc/sys/kernel/random/boot_id" 2>/dev/null || echo "no id")"
place="$1/.training-storage-$node" file="probe" text="probe of $node, boot $boot"
with_rename=no keep=no
for word in "${@:2}"; do
  case "$word" in
    rename) with_rename=yes ;;
    keep) keep=yes ;;
  esac
done

if ! reason="$(mkdir -p "$place" 2>&1)"; then
  echo "training-storage: $reason" >&2
  if [[ "$reason" == *"Permission denied"* || "$reason" == *"not permitted"* ]]; then
    exit 3
  fi
  exit 1
fi
if [[ "$keep" == yes ]]; then
  file="probe-${boot// /-}"
else
  rm -f "$place/$file"
fi
if [[ ! -e "$place/$file" ]]; then
  if [[ "$with_rename" == yes ]]; then
    # A try that was cut off may have left its file, and not every mount lets it be written again.
    printf '%s\n' "$text" >"$place/$file.$$"
    mv -T "$place/$file.$$" "$place/$file"
  else
    printf '%s\n' "$text" >"$place/$file"
  fi
fi
if [[ "$(cat "$place/$file")" != "$text" ]]; then
  echo "training-storage: $place/$file does not hold what was written to it" >&2
  exit 1
fi
if [[ "$keep" == no ]]; then
  rm -f "$place/$file"*
  rmdir "$place" 2>/dev/null || true # in S3 a directory goes with its last object
fi
