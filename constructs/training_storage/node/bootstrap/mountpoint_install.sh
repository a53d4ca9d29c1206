# shellcheck shell=bash
# Mountpoint for Amazon S3: a version that is new enough, from the distribution or from AWS's release bucket.

MOUNTPOINT_MINIMUM=1.20.0 # prefetch no longer takes gigabytes for each open file
MOUNTPOINT_RELEASES=https://s3.amazonaws.com/mountpoint-s3-release
MOUNTPOINT_KEY=8AEFE705EBE329C0948C75A66F1C3B3AEF4B030B

mountpoint_version() {
  mount-s3 --version 2>/dev/null | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | sed -n 1p || true
}

# mountpoint_since SETTING VALUE: first version that knows it; nothing where every version does that we mount with.
mountpoint_since() {
  case "$1=$2" in
    OTLP_ENDPOINT=* | OTLP_EXPORT_INTERVAL_SECONDS=*) echo 1.21.0 ;;
    UPLOAD_CHECKSUMS=crc64nvme) echo 1.23.0 ;;
    MEMORY_TARGET_MIB=*) echo 1.24.0 ;;
  esac
}

# mountpoint_knows SETTING VALUE: whether the installed version takes it.
mountpoint_knows() {
  local since
  since="$(mountpoint_since "$1" "$2")"
  [[ -z "$since" ]] || version_at_least "$(mountpoint_version)" "$since"
}

# mountpoint_wanted: the version that knows all that any mount of this node asks for.
mountpoint_wanted() {
  local wanted="$MOUNTPOINT_MINIMUM" name value since
  while IFS='=' read -r name value; do
    value="${value#\'}"
    since="$(mountpoint_since "$name" "${value%\'}")"
    if [[ -n "$since" ]] && version_at_least "$since" "$wanted"; then
      wanted="$since"
    fi
  done < <(cat "$TS_ETC"/mounts.d/*)
  printf '%s' "$wanted"
}

# mountpoint_is_good VERSION
mountpoint_is_good() {
  local version
  version="$(mountpoint_version)"
  [[ -n "$version" ]] && version_at_least "$version" "$1"
}

install_mountpoint() {
  local version wanted
  wanted="$(mountpoint_wanted)"
  if mountpoint_is_good "$wanted"; then
    return 0
  fi
  read_os
  if [[ "$OS_ID" == amzn && "$OS_VERSION" == 2023* ]]; then
    # The package alone, by its name: neither command touches anything else that is installed.
    retry 3 dnf install -y mount-s3 || log "the repository has no mount-s3"
    mountpoint_is_good "$wanted" || dnf upgrade -y mount-s3 || log "the repository has no newer mount-s3"
  fi
  if ! mountpoint_is_good "$wanted"; then
    install_mountpoint_release || log "the release of Mountpoint can't be installed"
  fi
  version="$(mountpoint_version)"
  # An option that is too new is left out with a warning; a version that is too old for all ends here.
  mountpoint_is_good "$MOUNTPOINT_MINIMUM" ||
    die "Mountpoint is ${version:-not there}, and $MOUNTPOINT_MINIMUM or later is needed for $BUCKET on $MOUNT_PATH"
}

install_mountpoint_release() {
  local format=rpm architecture=x86_64 package
  if [[ "$OS_ID" == ubuntu || "$OS_ID" == debian ]]; then
    format=deb
  fi
  if [[ "$(uname -m)" == aarch64 ]]; then
    architecture=arm64
  fi
  package="$TS_OPT/mount-s3.$format"
  mkdir -p "$TS_OPT"
  fetch "$MOUNTPOINT_RELEASES/latest/$architecture/mount-s3.$format" "$package" || return 1
  fetch "$MOUNTPOINT_RELEASES/latest/$architecture/mount-s3.$format.asc" "$package.asc" || return 1
  fetch "$MOUNTPOINT_RELEASES/public_keys/KEYS" "$TS_OPT/mount-s3.keys" || return 1
  mountpoint_signature_is_good "$package" || return 1
  # cloud-init's installs can meet those of the SSM agent, which holds the lock for a while.
  if [[ "$format" == deb ]]; then
    # It needs libfuse2, and the package lists of an image are as old as the image.
    retry 5 apt-get update -q || log "cannot read the package lists"
    retry 5 apt-get install -y -q -o DPkg::Lock::Timeout=300 "$package"
  elif command -v dnf >/dev/null 2>&1; then
    retry 5 dnf install -y "$package"
  else
    retry 5 yum install -y "$package"
  fi
}

# Signed by the key whose fingerprint Mountpoint's own documentation names.
mountpoint_signature_is_good() {
  local package="$1" home answer
  home="$(mktemp -d)"
  answer="$(gpg --homedir "$home" --batch --quiet --import "$TS_OPT/mount-s3.keys" 2>/dev/null &&
    gpg --homedir "$home" --batch --status-fd 1 --verify "$package.asc" "$package" 2>/dev/null || true)"
  rm -rf "$home"
  if grep -q "^\[GNUPG:\] VALIDSIG .*$MOUNTPOINT_KEY" <<<"$answer"; then
    return 0
  fi
  log "WARNING the signature of $package is not that of Mountpoint's releases"
  return 1
}
