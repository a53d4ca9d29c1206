# shellcheck shell=bash
# What an image does by itself and storage does not survive. Amazon Linux installs no kernel and restarts no service
# without being told; Ubuntu does both.

# Names of installed packages that carry a kernel for EC2 or its Lustre client, meta packages included.
installed_kernel_packages() {
  dpkg-query -W -f '${db:Status-Status} ${Package}\n' 'linux-*aws*' 'lustre-client-*' 2>/dev/null |
    awk '$1 == "installed" { print $2 }'
}

# A newer kernel has no Lustre client, and the boot after its installation would find no file system: it comes with a
# new image. The meta packages are held too, since they are what brings a kernel of another name.
hold_kernel() {
  local held name wanted=()
  read_os
  if [[ "$OS_ID" != ubuntu ]]; then
    return 0
  fi
  held="$(apt-mark showhold)"
  while IFS= read -r name; do
    if ! grep -qxF "$name" <<<"$held"; then
      wanted+=("$name")
    fi
  done < <(installed_kernel_packages)
  if ((${#wanted[@]} == 0)); then
    return 0
  fi
  if retry 5 apt-mark hold "${wanted[@]}" >/dev/null; then
    log "held at their version: ${wanted[*]}"
  else
    log "WARNING the kernel is not held; an unattended upgrade may leave the next boot without a Lustre client"
  fi
}

# needrestart restarts services whose libraries were upgraded; under a running job that is a mount that goes away.
keep_units_running() {
  local directory="$TS_ROOT/etc/needrestart/conf.d"
  if [[ -d "$directory" ]]; then
    write_file "$directory/training-storage.conf" <<'END'
$nrconf{override_rc}{qr(^training-storage-)} = 0;
END
  fi
}
