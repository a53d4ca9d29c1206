# shellcheck shell=bash
# S3 Files: AWS's mount helper in a version that works, the mount, and the proof that it gives and takes data.

EFS_UTILS_MINIMUM=3.1.2 # older ones ask for a host of STS that does not exist, and the server denies the mount
EFS_UTILS_INSTALLER=https://amazon-efs-utils.aws.com/efs-utils-installer.sh

# Before version 3 there is no helper of S3 Files, and that of EFS says what is installed.
efs_utils_version() {
  { mount.s3files --version || mount.efs --version || true; } 2>/dev/null |
    grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | sed -n 1p || true
}

efs_utils_are_good() {
  local version
  version="$(efs_utils_version)"
  [[ -n "$version" ]] && command -v mount.s3files >/dev/null 2>&1 && version_at_least "$version" "$EFS_UTILS_MINIMUM"
}

install_efs_utils() {
  local version
  if ! efs_utils_are_good; then
    read_os
    install_efs_utils_package || log "the repository has no amazon-efs-utils"
  fi
  if ! efs_utils_are_good; then
    install_efs_utils_release || log "AWS's installer of amazon-efs-utils can't be run"
  fi
  version="$(efs_utils_version)"
  efs_utils_are_good ||
    die "amazon-efs-utils is ${version:-not there}, and $EFS_UTILS_MINIMUM or later is needed for $FILE_SYSTEM_ID on" \
      "$MOUNT_PATH; take an image that has it, or let nodes reach the package repository and ${EFS_UTILS_INSTALLER%/*}"
  status efs_utils_version "$version"
}

# The package alone, by its name: nothing else that is installed changes.
install_efs_utils_package() {
  local manager=yum
  if [[ "$OS_ID" == ubuntu || "$OS_ID" == debian ]]; then
    retry 5 apt-get update -q || log "cannot read the package lists"
    if ! apt-cache show amazon-efs-utils >/dev/null 2>&1; then
      return 1
    fi
    retry 5 apt-get install -y -q -o DPkg::Lock::Timeout=300 amazon-efs-utils
    return
  fi
  if command -v dnf >/dev/null 2>&1; then
    manager=dnf
  fi
  retry 3 "$manager" install -y amazon-efs-utils || return 1
  efs_utils_are_good || "$manager" upgrade -y amazon-efs-utils
}

install_efs_utils_release() {
  local installer="$TS_OPT/efs-utils-installer.sh"
  mkdir -p "$TS_OPT"
  fetch "$EFS_UTILS_INSTALLER" "$installer" || return 1
  retry 2 timeout -k 10 300 sh "$installer" --install
}

# Without a way to CloudWatch Logs, as in a private network without that endpoint, the helper may wait for ever.
write_efs_utils_configuration() {
  local file="$TS_ROOT/etc/amazon/efs/s3files-utils.conf" enabled=false
  if [[ "${SHIP_LOGS:-}" == yes ]]; then
    enabled=true
  fi
  mkdir -p "${file%/*}"
  touch "$file"
  awk -v line="enabled = $enabled" '
    /^\[/ {
      if (inside && !written) { print line; written = 1 }
      inside = ($0 ~ /^\[cloudwatch-log\][ \t\r]*$/)
    }
    inside && /^#? *enabled *=/ {
      if (!written) { print line; written = 1 }
      next
    }
    { print }
    END {
      if (!written && !inside) print "[cloudwatch-log]"
      if (!written) print line
    }' "$file" | write_file "$file"
}

# s3_files_options: TLS and IAM are always on, and the helper sets the rest itself.
s3_files_options() {
  local options="region=$FILE_SYSTEM_REGION"
  if [[ "${READ_ONLY:-}" == yes ]]; then
    options="ro,$options"
  fi
  if [[ "${NO_DIRECT_READ:-}" == yes ]]; then
    options+=",nodirects3read"
  fi
  printf '%s' "$options"
}

# Every look at it has a bound: NFS waits for a server that does not answer.
s3_files_are_mounted() {
  timeout -k 10 30 mountpoint -q "$TS_ROOT$MOUNT_PATH"
}

try_s3_files_mount() {
  timeout -k 10 90 mount -t s3files -o "$(s3_files_options)" "$FILE_SYSTEM_ID:/" "$TS_ROOT$MOUNT_PATH" &&
    s3_files_are_mounted
}

mount_s3_files() {
  make_mount_path
  if ! s3_files_are_mounted; then
    retry "$TS_TRIES" try_s3_files_mount ||
      die "$FILE_SYSTEM_ID can't be mounted on $MOUNT_PATH after $TS_TRIES tries; it needs a mount target in the zone" \
        "of this node, TCP 2049 between the groups of nodes and mount target, and s3files:ClientMount for the role;" \
        "see /var/log/amazon/efs"
  fi
  write_s3_files_fstab
}

# One line, replaced and never doubled; nofail, so that a boot never hangs on it.
write_s3_files_fstab() {
  local fstab="$TS_ROOT/etc/fstab" options
  options="$(s3_files_options),_netdev,nofail,x-systemd.requires=network-online.target"
  touch "$fstab"
  {
    awk -v path="$MOUNT_PATH" '!($2 == path && $3 == "s3files")' "$fstab"
    printf '%s\n' "$FILE_SYSTEM_ID:/ $MOUNT_PATH s3files $options 0 0"
  } | write_file "$fstab"
  if [[ "$TS_CHANGED" == yes ]]; then
    systemctl daemon-reload
  fi
}

list_s3_files() {
  timeout -k 10 120 find "$TS_ROOT$MOUNT_PATH" -mindepth 1 -maxdepth 1 -print -quit >/dev/null
}

# probe_s3_files: keep how it ended in S3_FILES_PROBE; that root may not write is an answer, and no reason to try again.
probe_s3_files() {
  S3_FILES_PROBE=0
  timeout -k 10 120 bash "$TS_SCRIPTS/storage_probe.sh" "$TS_ROOT$MOUNT_PATH" || S3_FILES_PROBE=$?
  [[ "$S3_FILES_PROBE" -eq 0 || "$S3_FILES_PROBE" -eq 3 ]]
}

prove_s3_files() {
  status s3_files_id "$FILE_SYSTEM_ID"
  # A directory that nobody has looked into yet is imported first.
  retry 5 list_s3_files || die "$FILE_SYSTEM_ID is mounted on $MOUNT_PATH and can't be listed"
  if [[ "${READ_ONLY:-}" == yes ]]; then
    status s3_files read-only
    return 0
  fi
  retry 5 probe_s3_files || die "$FILE_SYSTEM_ID is mounted on $MOUNT_PATH and does not take or give data;" \
    "s3files:ClientWrite must be allowed for the role"
  status s3_files writable
  if [[ "$S3_FILES_PROBE" -eq 3 ]]; then
    if [[ "${ROOT_ACCESS:-}" == yes ]]; then
      die "$FILE_SYSTEM_ID is mounted on $MOUNT_PATH and root may not write there;" \
        "s3files:ClientWrite and s3files:ClientRootAccess must be allowed for the role"
    fi
    status s3_files "writing not proven"
    log "WARNING $FILE_SYSTEM_ID is mounted on $MOUNT_PATH, and its top directory takes no files from root, who is" \
      "squashed to another user: give root_access, or let root of another client open a directory to your users"
  fi
}
