# shellcheck shell=bash
# One systemd unit a mount: it is there after a reboot, and comes back when the process is killed.

# Settings that are yes or nothing, each with its flag.
MOUNTPOINT_FLAGS=(
  "READ_ONLY --read-only"
  "ALLOW_DELETE --allow-delete"
  "ALLOW_OVERWRITE --allow-overwrite"
  "INCREMENTAL_UPLOAD --incremental-upload"
  "REQUESTER_PAYS --requester-pays"
  "TRANSFER_ACCELERATION --transfer-acceleration"
  "DUAL_STACK --dual-stack"
  "LOG_METRICS --log-metrics"
)
# Settings whose value follows the flag as it is.
MOUNTPOINT_VALUES=(
  "THROUGHPUT_GBPS --maximum-throughput-gbps"
  "MAX_THREADS --max-threads"
  "METADATA_TTL --metadata-ttl"
  "NEGATIVE_METADATA_TTL --negative-metadata-ttl"
  "CACHE_BUCKET --cache-xz"
  "SSE --sse"
  "SSE_KMS_KEY --sse-kms-key-id"
  "UPLOAD_CHECKSUMS --upload-checksums"
  "STORAGE_CLASS --storage-class"
  "EXPECTED_BUCKET_OWNER --expected-bucket-owner"
  "ENDPOINT_URL --endpoint-url"
  "OTLP_ENDPOINT --otlp-endpoint"
  "OTLP_EXPORT_INTERVAL_SECONDS --otlp-export-interval"
)
# Settings in MiB, which Mountpoint takes in bytes.
MOUNTPOINT_SIZES=(
  "PART_SIZE_MIB --part-size"
  "READ_PART_SIZE_MIB --read-part-size"
  "WRITE_PART_SIZE_MIB --write-part-size"
)

# mountpoint_arguments: the command line, one argument a line.
mountpoint_arguments() {
  local pair setting flag interface
  local arguments=(
    --region "$BUCKET_REGION" --allow-other --uid "$OWNER_UID" --gid "$OWNER_GID"
    --dir-mode "$DIR_MODE" --file-mode "$FILE_MODE"
  )
  for pair in "${MOUNTPOINT_FLAGS[@]}"; do
    read -r setting flag <<<"$pair"
    if [[ "${!setting:-}" == yes ]]; then
      arguments+=("$flag")
    fi
  done
  if [[ "${PREFIX:-}" == -* ]]; then
    arguments+=("--prefix=$PREFIX") # in two words it would be read as an option
  elif [[ -n "${PREFIX:-}" ]]; then
    arguments+=(--prefix "$PREFIX")
  fi
  for pair in "${MOUNTPOINT_VALUES[@]}"; do
    read -r setting flag <<<"$pair"
    if [[ -n "${!setting:-}" ]] && mountpoint_knows "$setting" "${!setting}"; then
      arguments+=("$flag" "${!setting}")
    fi
  done
  for pair in "${MOUNTPOINT_SIZES[@]}"; do
    read -r setting flag <<<"$pair"
    if [[ -n "${!setting:-}" ]]; then
      arguments+=("$flag" "$((${!setting} * 1048576))")
    fi
  done
  for interface in ${BIND:-}; do
    arguments+=(--bind "$interface")
  done
  if [[ -n "$CACHE_DIRECTORY" ]]; then
    arguments+=(--cache "$CACHE_DIRECTORY" --max-cache-size "$(mountpoint_cache_mib)")
  fi
  if mountpoint_knows MEMORY_TARGET_MIB ""; then
    arguments+=(--memory-target "$(mountpoint_memory_mib)")
  fi
  printf '%s\n' "${arguments[@]}" "$BUCKET" "$MOUNT_PATH"
}

# What was asked for and is newer than the installed version; the mount is good without it, and slower or less seen.
say_what_is_left_out() {
  local setting since left
  for setting in "${MOUNT_SETTINGS[@]}"; do
    if [[ -n "${!setting:-}" ]] && ! mountpoint_knows "$setting" "${!setting}"; then
      since="$(mountpoint_since "$setting" "${!setting}")"
      left="$setting on $MOUNT_PATH: Mountpoint $(mountpoint_version) is older than $since"
      status left_out "${TS_STATUS[left_out]:+${TS_STATUS[left_out]}; }$left"
      log "WARNING $MOUNT_PATH is mounted without $setting=${!setting}, which Mountpoint knows from $since on"
    fi
  done
}

# The cache never lies on the root volume: without local NVMe there is none.
find_cache_directory() {
  CACHE_DIRECTORY=""
  if [[ "${CACHE:-}" != yes ]]; then
    return 0
  fi
  if [[ -z "$LOCAL_NVME" ]]; then
    status cache "none on $MOUNT_PATH: no local NVMe"
    log "WARNING $MOUNT_PATH is mounted without its cache: there is no local NVMe on /opt/dlami/nvme"
    return 0
  fi
  CACHE_DIRECTORY="$TS_ROOT$LOCAL_NVME/training-storage/cache/$NAME"
}

# What was asked for, and at most this mount's share of 80 % of the disk: eviction is slower than fill.
mountpoint_cache_mib() {
  local limit
  limit=$(($(local_nvme_mib) * 80 / 100 / ${TS_CACHES:-1}))
  if [[ -n "${CACHE_SIZE_MIB:-}" && "$CACHE_SIZE_MIB" -lt "$limit" ]]; then
    limit="$CACHE_SIZE_MIB"
  fi
  printf '%s' "$limit"
}

# What was asked for, or this mount's share of one eighth of the memory; Mountpoint's own default is 95 %.
mountpoint_memory_mib() {
  local share
  if [[ -n "${MEMORY_TARGET_MIB:-}" ]]; then
    printf '%s' "$MEMORY_TARGET_MIB"
    return 0
  fi
  share=$(($(memory_mib) / 8 / ${TS_MOUNTPOINTS:-1}))
  printf '%s' "$((share > 512 ? share : 512))"
}

# unit_arguments: arguments from stdin as systemd reads them back, each after a blank.
unit_arguments() {
  local argument
  while IFS= read -r argument; do
    if [[ ! "$argument" =~ ^[A-Za-z0-9_./:@+=,-]+$ ]]; then
      argument="${argument//\\/\\\\}"
      argument="${argument//\"/\\\"}"
      argument="${argument//%/%%}"
      argument="\"${argument//\$/\$\$}\""
    fi
    printf ' %s' "$argument"
  done
}

write_mountpoint_unit() {
  local unit="$1" command after="" before_start=""
  command="$(command -v mount-s3)$(mountpoint_arguments | unit_arguments)"
  if [[ -n "$CACHE_DIRECTORY" ]]; then
    after=" $NVME_UNIT"
    before_start="ExecStartPre=/bin/bash $TS_SCRIPTS/mountpoint_cache.sh $TS_ROOT$LOCAL_NVME $CACHE_DIRECTORY"
  fi
  install_unit "$unit" <<END
[Unit]
Description=Mountpoint for Amazon S3: $BUCKET on $MOUNT_PATH
Wants=network-online.target
After=network-online.target$after
StartLimitIntervalSec=0

[Service]
Type=forking
ExecStartPre=-/bin/umount --lazy $MOUNT_PATH
${before_start:+$before_start
}ExecStart=$command
ExecStop=/bin/umount $MOUNT_PATH
Restart=on-failure
RestartSec=5

[Install]
WantedBy=multi-user.target
END
}

mountpoint_is_up() {
  systemctl is-active --quiet "$1" && mountpoint -q "$TS_ROOT$MOUNT_PATH"
}

try_mountpoint() {
  systemctl start "$1" && mountpoint_is_up "$1"
}

mount_bucket() {
  local unit="training-storage-mountpoint-$NAME.service"
  make_mount_path
  find_cache_directory
  say_what_is_left_out
  write_mountpoint_unit "$unit"
  if [[ "$TS_CHANGED" == yes ]] && systemctl is-active --quiet "$unit"; then
    systemctl stop "$unit"
  fi
  if ! mountpoint_is_up "$unit"; then
    # Mountpoint writes to its shared cache before it mounts, and does not go on without it.
    retry "$TS_TRIES" try_mountpoint "$unit" ||
      die "s3://$BUCKET/${PREFIX:-}${CACHE_BUCKET:+, or its cache s3://$CACHE_BUCKET/,} can't be mounted on" \
        "$MOUNT_PATH after $TS_TRIES tries; see journalctl -t mount-s3"
  fi
  # One name is enough: a listing of a whole bucket could take hours.
  if ! timeout -k 10 60 find "$TS_ROOT$MOUNT_PATH" -mindepth 1 -maxdepth 1 -print -quit >/dev/null; then
    die "s3://$BUCKET/${PREFIX:-} is mounted on $MOUNT_PATH and can't be listed"
  fi
  if [[ "${DIRECTORY_BUCKET:-}" == yes && "${READ_ONLY:-}" != yes ]]; then
    retry 5 probe_directory_bucket ||
      die "s3://$BUCKET/${PREFIX:-} is mounted on $MOUNT_PATH and does not take, rename or give data"
  fi
  status mountpoint_version "$(mountpoint_version)"
}

# Savers of checkpoints write a file and rename it; only a directory bucket can do that.
probe_directory_bucket() {
  local words=(rename)
  if [[ "${ALLOW_DELETE:-}" != yes ]]; then
    words+=(keep)
  fi
  timeout -k 10 120 bash "$TS_SCRIPTS/storage_probe.sh" "$TS_ROOT$MOUNT_PATH" "${words[@]}"
}
