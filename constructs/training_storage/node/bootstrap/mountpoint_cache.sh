#!/bin/bash
# mountpoint_cache.sh DISK DIRECTORY: give Mountpoint an empty cache directory on the local disks at once; Mountpoint
# would empty a full one itself, and the mount would wait.
set -euo pipefail

disk="$1" directory="$2"
if ! mountpoint -q "$disk"; then
  echo "training-storage: $disk is not mounted, and a cache never lies on the root volume" >&2
  exit 1
fi
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
