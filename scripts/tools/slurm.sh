#!/usr/bin/env bash
# Prints the folder of Slurm's programs, with which test/slurmtest starts clusters. The script extracts the packages of
# Debian, in the version that this system has, and the libraries that they need and that this system lacks, into
# .cache/slurm. It installs no system package.
#
# The programs look for their libraries and plugins in /usr. Therefore the folder contains a script for each program, which
# starts the program by the dynamic linker with the folders of the libraries. LD_LIBRARY_PATH would do too, but sbatch
# and srun pass their environment to jobs, whose programs would then load libraries from the cache. The
# folder of the plugins is a setting, PluginDir in slurm.conf.
set -euo pipefail
cd "$(dirname "$0")/../.."
dir=$PWD/.cache/slurm
if [ ! -x "$dir/bin/slurmctld" ]; then
  . scripts/tools/lock.sh slurm
fi
if [ ! -x "$dir/bin/slurmctld" ]; then
  echo "fetching Slurm into .cache/slurm" >&2
  if ! command -v apt-get > /dev/null || ! command -v dpkg > /dev/null; then
    echo "tests of Slurm need a Debian system: they extract Debian's packages, and this system has no apt-get" >&2
    exit 1
  fi
  packages=(slurmctld slurmd slurm-client slurm-wlm-basic-plugins)
  fetch() {
    local more
    # Packages of which apt would install another version are in use by this system: it has their libraries.
    more=$(apt-get install -s -qq --no-install-recommends "${packages[@]}" | awk '$1 == "Inst" && $3 !~ /^\[/ {print $2}') &&
      apt-get download -qq -o APT::Sandbox::User=root $(printf '%s\n' "${packages[@]}" $more | sort -u)
  }
  new=$dir.new
  rm -rf "$new" && mkdir -p "$new"
  (cd "$new" && { fetch || { apt-get update -qq && fetch; }; } >&2)
  for package in "$new"/*.deb; do dpkg -x "$package" "$new"; done
  rm "$new"/*.deb
  plugins=$(cd "$new" && find usr/lib -name libslurmfull.so -printf '%h')
  case "$(uname -m)" in
    x86_64) linker=/lib64/ld-linux-x86-64.so.2 ;;
    aarch64) linker=/lib/ld-linux-aarch64.so.1 ;;
    *) echo "tests of Slurm run on x86_64 and aarch64, not on $(uname -m)" >&2; exit 1 ;;
  esac
  ln -s "$plugins" "$new/plugins"
  rm -f "$new/plugins"/mpi_pmix* # they need a library that these packages do not require
  libraries=${plugins%/*}
  mkdir "$new/bin"
  # The daemons have the suffix -wlm, and an installation has links without it. They ignore GPUs if they are called by
  # another name than that of the link.
  for program in "$new"/usr/sbin/*-wlm; do mv "$program" "${program%-wlm}"; done
  for program in "$new"/usr/bin/s* "$new"/usr/sbin/slurm*; do
    cat > "$new/bin/${program##*/}" <<SCRIPT
#!/bin/sh
slurm=\${0%/*}/..
exec $linker --library-path "\$slurm/plugins:\$slurm/$libraries:\$slurm/${libraries#usr/}" "\$slurm/${program#"$new/"}" "\$@"
SCRIPT
    chmod +x "$new/bin/${program##*/}"
  done
  "$new/bin/slurmctld" -V >&2
  rm -rf "$dir" && mv "$new" "$dir"
fi
echo "$dir/bin"
