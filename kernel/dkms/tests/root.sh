#!/bin/sh
# Makes a root of this machine's own programs, in which everything may be changed, and runs machine.sh there.
#
# Usage: unshare --mount sh root.sh DIRECTORY, with packages in DIRECTORY/packages
#
# /usr, /etc and /var are overlays: what is written goes to DIRECTORY, and the machine stays as it is. /sys and /boot
# are empty. The mounts end with the name space of the caller.
set -eu

directory=$(realpath "${1:?"usage: root.sh DIRECTORY"}")
here=$(realpath "$(dirname "$0")")
root=$directory/root
mkdir -p "$root"
cd "$root"
mkdir -p boot dev proc root run sys tmp packages output
for part in usr etc var; do
	mkdir -p "$part" "../$part.upper" "../$part.work"
	mount -t overlay overlay -o "lowerdir=/$part,upperdir=$directory/$part.upper,workdir=$directory/$part.work" "$part"
done
for link in bin lib lib64 sbin; do
	ln -s "usr/$link" "$link"
done
mount --rbind /proc proc
mount --rbind /dev dev
mount --bind "$directory/packages" packages
cp "$here/machine.sh" .
exec chroot . sh /machine.sh
