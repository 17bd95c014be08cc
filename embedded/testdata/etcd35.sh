#!/bin/sh
# Makes etcd35.tar.zst: the data directories a, b and c of a cluster of etcd 3.5 whose logs etcd 3.7 cannot replay.
# It needs root (for names of its own), zstd, and binaries of etcd 3.5, as
#
#	go mod init b && go get go.etcd.io/etcd/server/v3@v3.5.35 go.etcd.io/etcd/etcdctl/v3@v3.5.35
#	go build -o etcd go.etcd.io/etcd/server/v3 && go build -o etcdctl go.etcd.io/etcd/etcdctl/v3
#
#	sh etcd35.sh DIRECTORY-OF-THE-BINARIES
set -e
bin=$(realpath "$1")
out=$(realpath "$(dirname "$0")")/etcd35.tar.zst
if [ -z "$INSIDE" ]; then
	exec env INSIDE=1 unshare --mount sh "$0" "$@"
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
printf '127.35.35.1 a.test.internal\n127.35.35.2 b.test.internal\n127.35.35.3 c.test.internal\n' > hosts
mount --bind hosts /etc/hosts
pids=
i=0
for slot in a b c; do
	i=$((i + 1))
	"$bin/etcd" --name $slot --data-dir $slot --initial-cluster-token test@1 \
		--initial-cluster a=http://a.test.internal:2380,b=http://b.test.internal:2380,c=http://c.test.internal:2380 \
		--initial-advertise-peer-urls http://$slot.test.internal:2380 --listen-peer-urls http://127.35.35.$i:2380 \
		--listen-client-urls http://127.35.35.$i:2379 --advertise-client-urls http://127.35.35.$i:2379 > $slot.log 2>&1 &
	pids="$pids $!"
done
export ETCDCTL_ENDPOINTS=http://127.35.35.1:2379
until "$bin/etcdctl" endpoint health; do sleep 1; done
sleep 6 # until the cluster has agreed on a version
for k in $(seq 1 20); do "$bin/etcdctl" put key/$k value-$k; done
"$bin/etcdctl" put leased x --lease="$("$bin/etcdctl" lease grant 360000000 | cut -d' ' -f2)"
"$bin/etcdctl" del key/20
"$bin/etcdctl" compact 10
sleep 1 # until every member has applied it
kill $pids
wait || true
umount /etc/hosts
tar -cf - a b c | zstd -19 -f -o "$out"
