# Installs Debian's PostgreSQL, but neither makes a database of its own nor starts a service. What is arranged for that is
# undone at the end, also after a failure or Ctrl-C.
set -eu

policy=/usr/sbin/policy-rc.d
create=/etc/postgresql-common/createcluster.conf
saved=$(mktemp -d)

restore() {
    if [ -e "$saved/create" ]; then cp -p "$saved/create" "$create"; fi
    if [ -e "$saved/policy" ]; then rm -f "$policy"; fi
    rm -rf "$saved"
}
trap restore EXIT
trap 'exit 130' HUP INT TERM

install() {
    DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0 install -y --no-install-recommends "$@"
}

# Packages ask this file before they start a service; 101 forbids it. One that is there belongs to someone else.
if [ ! -e "$policy" ]; then
    touch "$saved/policy"
    printf '#!/bin/sh\nexit 101\n' > "$policy"
    chmod 755 "$policy"
fi

# A machine that never asked knows no packages.
install postgresql-common || { apt-get -q update && install postgresql-common; }

# Otherwise the next package makes a database that starts at every boot.
cp -p "$create" "$saved/create"
echo 'create_main_cluster = false' >> "$create"
install postgresql
