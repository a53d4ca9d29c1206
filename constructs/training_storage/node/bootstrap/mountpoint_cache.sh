#!/bin/bash
# Give Mountpoint an empty cache directory at once: Mountpoint would empty a full one itself, and the mount would wait.
set -euo pipefail

directory="$1"
mkdir -p "$directory"
if [[ -n "$(find "$directory" -mindepth 1 -maxdepth 1 -print -quit)" ]]; then
  mv "$directory" "$directory.old.$$"
  mkdir -p "$directory"
fi
chmod 700 "$directory"
for old in "$directory".old.*; do
  if [[ -e "$old" ]]; then
    # systemd ends what a start command leaves behind, so the removal needs a unit of its own.
    systemd-run --quiet --no-block --collect nice -n 19 rm -rf "$old" || rm -rf "$old"
  fi
done
