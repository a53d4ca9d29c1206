"""A node of files and stub commands, on which the real bootstrap scripts run without root, network or AWS."""

from __future__ import annotations

import json
import shutil
import subprocess
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "constructs" / "training_storage" / "node" / "bootstrap"
FILE_SYSTEM_ID = "fs-0123456789abcdef0"
KERNEL = "6.1.132-147.221.amzn2023.x86_64"

AL2023 = 'NAME="Amazon Linux"\nID="amzn"\nVERSION_ID="2023"\n'
UBUNTU = 'ID=ubuntu\nVERSION_ID="22.04"\nVERSION_CODENAME=jammy\n'

# What each command does beyond being written down. $STATE holds the state of the machine as files.
STUBS: Mapping[str, str] = {
    "mountpoint": 'grep -qxF "$2" "$STATE/mounted"',
    "findmnt": """case "$*" in
*lustre*) grep -qxF "${@: -1}" "$STATE/mounted" ;;
*autofs*) grep -qxF "${@: -1}" "$STATE/automounts" ;;
esac""",
    "mount": 'down mount_failures || exit 5; echo "${@: -1}" >>"$STATE/mounted"',
    "umount": 'grep -vxF "${@: -1}" "$STATE/mounted" >"$STATE/mounted.new"; mv "$STATE/mounted.new" "$STATE/mounted"',
    "getent": "down getent_failures",
    "uname": f'case "$1" in -r) echo {KERNEL};; -m) cat "$STATE/machine";; -n) echo node-1;; esac',
    "modinfo": '[[ -e "$STATE/module_$1" ]]',
    # A path is a package that was downloaded.
    "dnf": """case "${@: -1}" in
/*) cp "$STATE/release_version" "$STATE/mount_s3_version" ;;
lustre-client) [[ -e "$STATE/dnf_has_lustre-client" ]] && add_client ;;
mount-s3) [[ -e "$STATE/dnf_has_mount-s3" ]] && cp "$STATE/dnf_has_mount-s3" "$STATE/mount_s3_version" ;;
amazon-efs-utils) [[ -e "$STATE/dnf_has_efs_utils" ]] && cp "$STATE/dnf_has_efs_utils" "$STATE/efs_utils_version" ;;
esac""",
    "yum": "exit 1",
    "apt-get": """case "$1 ${@: -1}" in
"install amazon-efs-utils") cp "$STATE/apt_has_amazon-efs-utils" "$STATE/efs_utils_version" ;;
install*) add_client ;;
esac""",
    "mount.s3files": (
        '[[ -s "$STATE/efs_utils_version" ]] || exit 127; echo "$0 Version: $(cat "$STATE/efs_utils_version")"'
    ),
    "apt-mark": """case "$1" in
showhold) cat "$STATE/held" ;;
hold) down hold_failures || exit 100; shift; printf '%s\\n' "$@" >>"$STATE/held" ;;
esac""",
    "dpkg-query": 'cat "$STATE/packages"; exit 1',
    "apt-cache": '[[ -e "$STATE/apt_has_$2" ]]',
    "systemctl": """verb=$1
shift
[[ "$1" != --quiet ]] || shift
unit="$TS_ROOT/etc/systemd/system/$1"
case "$verb" in
is-enabled) [[ -e "$STATE/enabled_$1" ]] ;;
enable) touch "$STATE/enabled_$1" ;;
disable) rm -f "$STATE/enabled_$1" ;;
show) down jobs || echo 17 ;;
is-active) [[ -e "$STATE/active_$1" ]] ;;
stop) rm -f "$STATE/active_$1" ;;
start)
  [[ ! -f "$unit" ]] || bash -c "$(sed -n "s/^ExecStart=//p" "$unit")" || exit 1
  touch "$STATE/active_$1"
  ;;
esac""",
    "mount-s3": (
        'if [[ "$1" == --version ]]; then [[ -s "$STATE/mount_s3_version" ]] || exit 127; '
        'echo "mount-s3 $(cat "$STATE/mount_s3_version")"; exit 0; fi; '
        'down mount_s3_failures || exit 1; echo "$TS_ROOT${@: -1}" >>"$STATE/mounted"'
    ),
    "lctl": ":",
    "lnetctl": (
        'n=$(cat "$STATE/efa_messages"); [[ ! -e "$STATE/efa_rises" ]] || echo $((n + 100)) >"$STATE/efa_messages"; '
        'for ((i = 0; i < $(cat "$STATE/efa_interfaces"); i++)); do echo "- nid: 10.0.0.$i@efa"; done; '
        'echo "send_count: $n"'
    ),
    "lsmod": 'cat "$STATE/modules"',
    "lsblk": 'cat "$STATE/disks"',
    "lfs": 'case "$1" in getstripe) cat "$STATE/stripes";; setstripe) echo -1 >"$STATE/stripes";; esac',
    "nproc": 'cat "$STATE/cpus"',
    "df": 'printf "1M-blocks\\n %s\\n" "$(cat "$STATE/disk_mib")"',
    "sleep": ":",
    "systemd-run": 'while [[ "$1" == --* ]]; do shift; done; "$@"',
    "gpg": 'case "$*" in *--verify*) cat "$STATE/signature";; esac',
    "curl": (
        'case "$*" in *meta-data/instance-id*) echo i-0abc;; *api/token*) echo token;; esac; out=""; '
        'while (($#)); do [[ "$1" != -o ]] || out=$2; url=$1; shift; done; [[ -n "$out" ]] || exit 0; '
        '[[ ! -e "$STATE/no_internet" ]] || exit 6; '
        'src="$STATE/downloads/${url##*/}"; if [[ -e "$src" ]]; then cp "$src" "$out"; else echo data >"$out"; fi'
    ),
    "aws": (
        'if [[ "$1" == s3 ]]; then down s3_failures || exit 1; cp "$STATE/scripts.zip" "${@: -1}"; exit 0; fi; '
        'if [[ -e "$STATE/signal_answer" ]]; then cat "$STATE/signal_answer" >&2; exit 254; fi'
    ),
}

_PRELUDE = """#!/bin/bash
printf '%s\\n' "${0##*/} $*" >>"$STATE/calls"
# down NAME: fail as many times as the file says.
down() {
  local left=0
  [[ ! -e "$STATE/$1" ]] || left=$(cat "$STATE/$1")
  ((left == 0)) && return 0
  echo $((left - 1)) >"$STATE/$1"
  return 1
}
add_client() {
  touch "$STATE/module_lustre"
  printf '#!/bin/bash\\n' >"$BIN/mount.lustre"
  chmod +x "$BIN/mount.lustre"
}
"""

LUSTRE = {
    "KIND": "lustre",
    "MOUNT_PATH": "/fsx",
    "FILE_SYSTEM_ID": FILE_SYSTEM_ID,
    "DNS_NAME": f"{FILE_SYSTEM_ID}.fsx.us-east-1.amazonaws.com",
    "MOUNT_NAME": "abcdefgh",
    "CHECKPOINTS": "checkpoints",
    "SCRATCH": "scratch",
}
LUSTRE_EFA = {**LUSTRE, "EFA": "yes", "ON_TCP": "report"}
LAKE = {
    "KIND": "mountpoint",
    "MOUNT_PATH": "/lake",
    "BUCKET": "lake-bucket",
    "BUCKET_REGION": "us-east-1",
    "READ_ONLY": "yes",
    "THROUGHPUT_GBPS": "100",
    "OWNER_UID": "1000",
    "OWNER_GID": "1000",
    "FILE_MODE": "0644",
    "DIR_MODE": "0755",
}

HOT = {**LAKE, "MOUNT_PATH": "/hot", "BUCKET": "hot--use1-az6--x-s3", "DIRECTORY_BUCKET": "yes", "READ_ONLY": ""}
S3_FILES_ID = "fs-0fedcba9876543210"
S3_FILES = {
    "KIND": "s3-files",
    "MOUNT_PATH": "/files",
    "FILE_SYSTEM_ID": S3_FILES_ID,
    "FILE_SYSTEM_REGION": "us-east-1",
    "READ_ONLY": "yes",
}


class Node:
    """One machine: ``root`` in place of /, ``state`` behind the stub commands."""

    def __init__(self, folder: Path) -> None:
        self.root, self.state, self.bin = folder / "root", folder / "state", folder / "bin"
        for place in (
            self.root / "etc/training-storage/mounts.d",
            self.root / "proc",
            self.state / "downloads",
            self.bin,
        ):
            place.mkdir(parents=True)
        for name, body in STUBS.items():
            self.add_command(name, body)
        self.set(
            calls="", mounted="", automounts="", held="", packages="",
            machine="x86_64", modules="", disks="", stripes="1", cpus="192", disk_mib="614400",
            efa_messages="0", efa_interfaces="0", mount_s3_version="", release_version="1.24.0", efs_utils_version="",
            signature="[GNUPG:] VALIDSIG 8AEFE705EBE329C0948C75A66F1C3B3AEF4B030B 2026-08-26",
        )  # fmt: skip
        (self.root / "etc/os-release").write_text(AL2023)
        # 2 TiB, as p5en.48xlarge
        (self.root / "proc/meminfo").write_text("MemTotal:       2147483648 kB\nMemFree: 1 kB\n")
        self.settings(TS_REGION="us-east-1", TS_STACK_NAME="llama3-compute", TS_LOGICAL_ID="FleetABC")

    def add_command(self, name: str, body: str) -> None:
        command = self.bin / name
        command.write_text(f"{_PRELUDE}{body}\n")
        command.chmod(0o755)

    def set(self, **values: str) -> None:
        """Set files of the machine's state."""
        for name, value in values.items():
            (self.state / name).write_text(value + "\n" if value else "")

    def has(self, *names: str) -> None:
        """Make things be there, such as ``module_lustre``."""
        for name in names:
            (self.state / name).touch()

    def with_lustre_client(self) -> None:
        self.has("module_lustre")
        self.add_command("mount.lustre", ":")

    def with_efa(self, *, rising: bool = True, interfaces: int = 8) -> None:
        unit = "configure-efa-fsx-lustre-client.service"
        self.has("module_efa", f"enabled_{unit}", f"active_{unit}")
        self.set(efa_interfaces=str(interfaces))
        if rising:
            self.has("efa_rises")

    def with_nvme(self) -> None:
        nvme = self.root / "opt/dlami/nvme"
        nvme.mkdir(parents=True)
        with (self.state / "mounted").open("a") as mounted:
            mounted.write(f"{nvme}\n")

    def settings(self, **values: str) -> None:
        _write(self.root / "etc/training-storage/settings", values)

    def mount(self, name: str, values: Mapping[str, str]) -> None:
        _write(self.root / "etc/training-storage/mounts.d" / name, values)

    def user_commands(self, *lines: str) -> None:
        script = self.root / "opt/training-storage/user-commands.sh"
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text("\n".join(lines) + "\n")

    def path_without(self, name: str) -> str:
        """Return a search path of the stubs and of this machine's commands, less one that it may have."""
        tools = self.state / f"without-{name}"
        tools.mkdir()
        for folder in ("/usr/bin", "/bin"):
            for command in Path(folder).iterdir():
                if command.name != name and not (tools / command.name).is_symlink():
                    (tools / command.name).symlink_to(command)
        return f"{self.bin}:{tools}"

    def zip_scripts(self) -> None:
        """Put the scripts where ``aws s3 cp`` takes them from."""
        with zipfile.ZipFile(self.state / "scripts.zip", "w") as archive:
            for script in sorted(SCRIPTS.iterdir()):
                archive.write(script, f"bootstrap/{script.name}")

    def run(
        self, script: Path | None = None, *, arguments: Sequence[str] = (), **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a script, the bootstrap unless one is named."""
        bash = shutil.which("bash")
        assert bash is not None
        return subprocess.run(
            [bash, str(script or SCRIPTS / "bootstrap.sh"), *arguments],
            env={
                "PATH": f"{self.bin}:/usr/bin:/bin",
                "HOME": str(self.root),
                "LC_ALL": "C",
                "TS_ROOT": str(self.root),
                "TS_TRIES": "6",
                "TS_RETRY_DELAY": "0",
                "TS_PROBE_MIB": "1",
                "STATE": str(self.state),
                "BIN": str(self.bin),
                **environment,
            },
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def calls(self, command: str = "") -> list[str]:
        """Return the command lines so far, those of one command without its name."""
        lines = (self.state / "calls").read_text().splitlines()
        return [line.removeprefix(f"{command} ") for line in lines if not command or line.split(" ")[0] == command]

    def signals(self) -> list[str]:
        """Return the statuses that CloudFormation was told."""
        return [
            line.split("--status ")[1].split()[0] for line in self.calls("aws") if line.startswith("cloudformation")
        ]

    def status(self) -> dict[str, str]:
        return dict(json.loads((self.root / "var/lib/training-storage/status.json").read_text()))

    def read(self, path: str) -> str:
        return (self.root / path).read_text()

    def unit(self, name: str) -> str:
        return self.read(f"etc/systemd/system/training-storage-{name}.service")

    def files(self) -> dict[str, bytes]:
        """Return every file but the log, which grows."""
        return {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and path.name != "training-storage.log"
        }


def _write(path: Path, values: Mapping[str, str]) -> None:
    path.write_text("".join(f"{name}='{value}'\n" for name, value in values.items()))
