# shellcheck shell=bash
# The Lustre client: present on Deep Learning images, else installed for the kernel that runs. Never a kernel upgrade.

LUSTRE_CLIENTS=https://docs.aws.amazon.com/fsx/latest/LustreGuide/lustre-client-matrix.html
LUSTRE_REPOSITORY=https://fsx-lustre-client-repo.s3.amazonaws.com
LUSTRE_KEYS=https://fsx-lustre-client-repo-public-keys.s3.amazonaws.com

# modinfo only looks: loading lustre before the EFA set-up would fix its CPU partitions too early.
lustre_client_present() {
  command -v mount.lustre >/dev/null 2>&1 && modinfo lustre >/dev/null 2>&1
}

no_lustre_client() {
  die "there is no Lustre client for the running kernel $(uname -r) ($1), so $FILE_SYSTEM_ID can't be mounted;" \
    "take an image with a kernel of $LUSTRE_CLIENTS or one that has the client"
}

install_lustre_client() {
  if lustre_client_present; then
    log "the Lustre client is there for kernel $(uname -r)"
    return 0
  fi
  read_os
  case "$OS_ID:$OS_VERSION" in
    amzn:2023*) retry 5 dnf install -y lustre-client || no_lustre_client "dnf has no lustre-client" ;;
    amzn:2) retry 5 amazon-linux-extras install -y lustre || no_lustre_client "amazon-linux-extras has no lustre" ;;
    ubuntu:*) install_lustre_client_ubuntu ;;
    *) no_lustre_client "operating system $OS_ID $OS_VERSION" ;;
  esac
  lustre_client_present || no_lustre_client "its module is not among the modules of this kernel"
}

install_lustre_client_ubuntu() {
  local key="$TS_ROOT/usr/share/keyrings/fsx-ubuntu-public-key.asc"
  local package
  # The package that names the kernel: the one without may bring a newer kernel along.
  package="lustre-client-modules-$(uname -r)"
  mkdir -p "${key%/*}"
  fetch "$LUSTRE_KEYS/fsx-ubuntu-public-key.asc" "$key" || die "cannot fetch the key of $LUSTRE_REPOSITORY"
  write_file "$TS_ROOT/etc/apt/sources.list.d/fsxlustreclientrepo.list" <<END
deb [signed-by=$key] $LUSTRE_REPOSITORY/ubuntu $OS_CODENAME main
END
  retry 5 apt-get update -q || die "cannot read the package lists of $LUSTRE_REPOSITORY"
  if ! apt-cache show "$package" >/dev/null 2>&1; then
    no_lustre_client "the repository has no $package"
  fi
  # On a first boot the automatic upgrades of Ubuntu hold the lock for minutes.
  retry 5 apt-get install -y -q -o DPkg::Lock::Timeout=300 "$package" || die "cannot install $package"
}

# Module options for large hosts, before anything loads the modules (FSx for Lustre User Guide, performance tips).
write_lustre_module_options() {
  if [[ "$(nproc)" -le 64 ]]; then
    return 0
  fi
  write_file "$TS_ROOT/etc/modprobe.d/training-storage-lustre.conf" <<'END'
options ptlrpc ptlrpcd_per_cpt_max=32
options ksocklnd credits=2560
END
  if [[ "$TS_CHANGED" == yes ]] && lsmod | grep '^ptlrpc ' >/dev/null; then
    log "WARNING the Lustre modules are loaded already: their options count from the next boot"
  fi
}
