#!/bin/sh
# Makes the secrets of compose.yaml in secrets/, each in a file of its own. What is there already stays.
set -eu
cd "$(dirname "$0")"
umask 077
mkdir -p secrets
for name in token.secret redis.password postgres.password postgres-admin.password postgres-standby.password s3-access.key s3-secret.key; do
    [ -s "secrets/$name" ] || od -An -N32 -tx1 /dev/urandom | tr -d ' \n' > "secrets/$name"
    # Compose mounts files with the rights that they have, and dunlin in its container is another user. The folder keeps others out.
    chmod 644 "secrets/$name"
done
chmod 700 secrets
