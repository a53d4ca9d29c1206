# shellcheck shell=bash
# Mounts of before. An image that was made from a node brings that one's mounts along, and what lies on a path already
# would pass for what is asked for there: another file system, or the same one with other options.

# mount_unit PATH: name of the mount unit of a path, without its ending, as systemd-escape gives it.
mount_unit() {
  local name="${1#/}"
  name="${name//-/\\x2d}"
  if [[ "$name" == .* ]]; then
    name="\\x2e${name#.}"
  fi
  printf '%s' "${name//\//-}"
}

# mounts_in_fstab: path, type and what else makes it this mount, a line each. Mountpoint has units of its own.
mounts_in_fstab() {
  local file
  for file in "$TS_ETC"/mounts.d/*; do
    if [[ ! -f "$file" ]]; then
      continue
    fi
    load_mount "$file"
    case "$KIND" in
      lustre) printf '%s\n' "$MOUNT_PATH lustre $DNS_NAME@tcp:/$MOUNT_NAME" ;;
      s3-files) printf '%s\n' "$MOUNT_PATH s3files $FILE_SYSTEM_ID:/ $(s3_files_options)" ;;
    esac
  done
}

# s3_files_mount_units: mount units of S3 Files, each after a blank. systemd mounts them at boot and waits for none.
s3_files_mount_units() {
  local path type
  while read -r path type _; do
    if [[ "$type" == s3files ]]; then
      printf ' %s.mount' "$(mount_unit "$path")"
    fi
  done < <(mounts_in_fstab)
}

# forget_old_mounts: end what this node has mounted by our hand and is no longer asked for like that.
forget_old_mounts() {
  local record="$TS_VAR/mounts" wanted line unit name
  wanted="$(mounts_in_fstab)"
  if [[ -f "$record" ]]; then
    while IFS= read -r line; do
      if [[ -n "$line" ]] && ! grep -qxF "$line" <<<"$wanted"; then
        forget_fstab_mount "$line"
      fi
    done <"$record"
  fi
  printf '%s\n' "$wanted" | write_file "$record"
  for unit in "$TS_UNITS"/training-storage-mountpoint-*.service; do
    name="${unit##*/training-storage-mountpoint-}"
    if [[ -f "$unit" ]] && ! is_mountpoint_mount "$TS_ETC/mounts.d/${name%.service}"; then
      log "the mount of ${unit##*/} is no longer asked for"
      systemctl stop "${unit##*/}" || true
      systemctl disable --quiet "${unit##*/}" || true
      rm -f "$unit"
      systemctl daemon-reload
    fi
  done
}

is_mountpoint_mount() {
  [[ -f "$1" ]] && (load_mount "$1" && [[ "$KIND" == mountpoint ]])
}

# forget_fstab_mount "PATH TYPE ...": a job may still hold it, so it goes lazily.
forget_fstab_mount() {
  local path type unit fstab="$TS_ROOT/etc/fstab"
  read -r path type _ <<<"$1"
  unit="$(mount_unit "$path")"
  log "$path was another mount before: $1"
  touch "$fstab"
  awk -v path="$path" -v type="$type" '!($2 == path && $3 == type)' "$fstab" | write_file "$fstab"
  if [[ "$TS_CHANGED" == yes ]]; then
    systemctl daemon-reload
  fi
  timeout -k 10 60 systemctl stop "$unit.mount" "$unit.automount" 2>/dev/null || true
  timeout -k 10 60 umount --lazy "$TS_ROOT$path" 2>/dev/null || true # what systemd could not stop
}
