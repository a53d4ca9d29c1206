# shellcheck shell=bash
# Mount the file system, prove that it takes and gives data, and see which way the data goes.

# Not mountpoint(1): after a reboot the automount of fstab is a mount point too, with nothing behind it yet.
lustre_is_mounted() {
  findmnt --types lustre --mountpoint "$TS_ROOT$MOUNT_PATH" >/dev/null
}

# A mount that the network swallows would hang: with a bound, all tries end within the hour that a stack waits.
try_lustre_mount() {
  if findmnt --types autofs --mountpoint "$TS_ROOT$MOUNT_PATH" >/dev/null; then
    timeout 90 ls "$TS_ROOT$MOUNT_PATH/" >/dev/null # the first access mounts
  else
    timeout 90 mount -t lustre -o relatime,flock "$DNS_NAME@tcp:/$MOUNT_NAME" "$TS_ROOT$MOUNT_PATH"
  fi
  lustre_is_mounted
}

mount_lustre() {
  make_mount_path
  if ! lustre_is_mounted; then
    retry "$TS_TRIES" getent hosts "$DNS_NAME" >/dev/null ||
      die "the name $DNS_NAME of $FILE_SYSTEM_ID does not resolve;" \
        "switch on DNS support and DNS host names of the VPC, or ask its own resolver"
    retry "$TS_TRIES" try_lustre_mount ||
      die "$FILE_SYSTEM_ID can't be mounted on $MOUNT_PATH after $TS_TRIES tries;" \
        "TCP 988 and 1018-1023 must be open between the groups of nodes and file system"
  fi
  write_lustre_fstab
}

# One line, replaced and never doubled: after a reboot the first access mounts, and a boot never hangs on it.
write_lustre_fstab() {
  local fstab="$TS_ROOT/etc/fstab" options line
  options="defaults,relatime,flock,_netdev,nofail,x-systemd.automount,x-systemd.requires=network-online.target"
  # A unit that a failed set-up did not leave behind must not keep the mount from coming back after a reboot.
  if [[ "${EFA:-}" == yes ]] && systemctl is-enabled --quiet "$EFA_UNIT" 2>/dev/null; then
    options+=",x-systemd.requires=$EFA_UNIT,x-systemd.after=$EFA_UNIT"
  fi
  line="$DNS_NAME@tcp:/$MOUNT_NAME $MOUNT_PATH lustre $options 0 0"
  touch "$fstab"
  {
    awk -v path="$MOUNT_PATH" '!($2 == path && $3 == "lustre")' "$fstab"
    printf '%s\n' "$line"
  } | write_file "$fstab"
  if [[ "$TS_CHANGED" == yes ]]; then
    systemctl daemon-reload
  fi
}

# Random data: zeros would be compressed away. Read past the page cache where the file system takes that.
probe_lustre() {
  local probe="$1" mib="${TS_PROBE_MIB:-64}"
  timeout 120 dd if=/dev/urandom of="$probe" bs=1M count="$mib" conv=fsync status=none &&
    [[ "$(stat -c %s "$probe")" -eq $((mib * 1048576)) ]] &&
    { timeout 120 dd if="$probe" of=/dev/null bs=1M iflag=direct status=none 2>/dev/null ||
      timeout 120 dd if="$probe" of=/dev/null bs=1M status=none; }
}

prove_lustre() {
  local probe before=0
  probe="$TS_ROOT$MOUNT_PATH/.training-storage-probe-$(uname -n)"
  if [[ "${EFA:-}" == yes ]]; then
    before="$(efa_messages)"
  fi
  # A mount can return before the file system takes data.
  retry 5 probe_lustre "$probe" || die "$FILE_SYSTEM_ID is mounted on $MOUNT_PATH and does not take or give data"
  rm -f "$probe"
  status file_system_id "$FILE_SYSTEM_ID"
  status transport tcp
  if [[ "${EFA:-}" == yes ]]; then
    check_efa_transport "$before"
  fi
}

# Without a rule that names the group, or with a set-up that failed, traffic falls back to TCP and all looks well.
check_efa_transport() {
  local before="$1" interfaces after reason
  interfaces="$(efa_interfaces)"
  after="$(efa_messages)"
  status efa_interfaces "$interfaces"
  if [[ "$interfaces" -gt 0 && "$after" -gt "$before" ]]; then
    status transport efa
    log "$FILE_SYSTEM_ID is reached over EFA, $interfaces interfaces"
    return 0
  fi
  reason="LNet has no EFA interface"
  if [[ "$interfaces" -gt 0 ]]; then
    reason="the counters of its $interfaces EFA interfaces do not rise; the security groups must name each other"
  fi
  if [[ "${ON_TCP:-report}" == fail ]]; then
    die "$FILE_SYSTEM_ID is reached over TCP in place of EFA: $reason"
  fi
  status warning "over TCP in place of EFA: $reason"
  log "WARNING ======================================================================"
  log "WARNING $FILE_SYSTEM_ID is reached over TCP in place of EFA: $reason"
  log "WARNING ======================================================================"
}

# make_lustre_directories: where jobs write, each with the layout for what lands there.
make_lustre_directories() {
  if [[ -n "${CHECKPOINTS:-}" ]] && make_open_directory "$TS_ROOT$MOUNT_PATH/$CHECKPOINTS"; then
    stripe_checkpoints "$TS_ROOT$MOUNT_PATH/$CHECKPOINTS"
  fi
  if [[ -n "${SCRATCH:-}" ]] && make_open_directory "$TS_ROOT$MOUNT_PATH/$SCRATCH" && [[ "$TS_CHANGED" == yes ]]; then
    stripe_scratch "$TS_ROOT$MOUNT_PATH/$SCRATCH"
  fi
}

# make_open_directory DIRECTORY: open to every user, as /tmp is; TS_CHANGED says whether this node made it.
# A directory that FSx made for a link is root's alone, and jobs of other users could not write there. Any other owner
# or mode is somebody's choice and stays.
make_open_directory() {
  local directory="$1"
  TS_CHANGED=no
  if [[ ! -d "$directory" ]]; then
    mkdir -p "$directory"
    TS_CHANGED=yes
  fi
  if [[ "$TS_CHANGED" == yes || (-O "$directory" && "$(stat -c %a "$directory")" == 755) ]]; then
    chmod 1777 "$directory"
  fi
}

# Large files over all storage targets; counts for files that are written from now on.
stripe_checkpoints() {
  local directory="$1"
  if [[ "$(lfs getstripe -d -c "$directory" 2>/dev/null)" == -1 ]]; then
    return 0
  fi
  lfs setstripe -c -1 -S 16M "$directory" || log "WARNING lfs can't set the layout of $directory"
}

# Files of every size: small ones on one target, larger ones on more (the layout of new file systems since 2023-08).
stripe_scratch() {
  lfs setstripe -E 100M -c 1 -E 10G -c 8 -E 100G -c 16 -E -1 -c 32 "$1" || log "WARNING lfs can't set the layout of $1"
}
