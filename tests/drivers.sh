#!/bin/bash
# drivers.sh: whether RDMAV_DRIVERS, which has libibverbs load a library, reaches libibverbs in a ringwatchd with the right to
# real-time priority, and in one without. Called by tests/scripts.sh, as root of a container without hosts. It prints for each
# user and each of two hosts 'USER DRIVERS', where DRIVERS is what libibverbs sees, or none. Exit status: 0 both jobs have
# ended, else what has failed.
set -euo pipefail
groupadd staff2
useradd -m -G staff2 member
useradd -m other
/src/scripts/install --priority staff2
rw-hosts up 2

# In the kernel's list both hosts have a device, which ringwatchd opens with libibverbs.
mount -t tmpfs devices /sys/class
port=/sys/class/infiniband/rxe0/ports/1
mkdir -p $port/gids $port/gid_attrs/types
echo '4: ACTIVE' >$port/state
for host in 1 2; do
    echo "0000:0000:0000:0000:0000:ffff:0a4d:000$host" >$port/gids/$host
    echo 'RoCE v2' >$port/gid_attrs/types/$host
done
gcc -std=gnu11 -Wall -Wextra -Werror -shared -fPIC -o /usr/lib/x86_64-linux-gnu/libibverbs.so.1 /src/tests/programs/drivers.c
mkdir -m 777 /tmp/seen

# Only root reaches the other host: a user's remote shell asks for what it is to run there.
calls=/tmp/calls
mkfifo -m 666 $calls
printf '%s\n' '#!/bin/bash' 'while [[ $1 == -* ]]; do shift; done' "echo \"\${*:2}\" >$calls" >/usr/local/bin/rw-ask
chmod +x /usr/local/bin/rw-ask
for user in member other; do
    as=(setpriv --reuid $user --regid $user --init-groups env HOME=/home/$user RDMAV_DRIVERS=/tmp/own)
    { read -r line <$calls; exec rw-on h2 "${as[@]}" bash -c "$line"; } &
    # shellcheck disable=SC2016
    rw-on h1 "${as[@]}" timeout -k 1 -s KILL 30 mpirun --prtemca plm_ssh_agent /usr/local/bin/rw-ask --with-ft ulfm \
        -H h1:1,h2:1 -n 2 sh -c 'until [ "$(cat /tmp/seen/"$(id -un)".* 2>/dev/null | wc -l)" = 2 ]; do :; done'
    wait
done
cat /tmp/seen/*
