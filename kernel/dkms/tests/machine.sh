#!/bin/sh
# A machine gets gpreempt-dkms, is refused, obeys, and is rid of it again. Runs in the root that root.sh makes.
#
# Packages of the kernel and of DKMS are unpacked, not installed; gpreempt-dkms is installed. What DKMS built is left in
# /output. Ends at the first thing that is not as it should be.
set -eu

step() {
	echo "== $1"
}

wrong() {
	echo "not as it should be: $1" >&2
	exit 1
}

# Says what lies in the image of the kernel.
image_has() {
	lsinitramfs "/boot/initrd.img-$release" | grep "/amdgpu\.ko"
}

stock_is_untouched() {
	echo "$stock_sum" | sha256sum --check --quiet || wrong "the kernel's own amdgpu changed"
}

export DEBIAN_FRONTEND=noninteractive
package=$(echo /packages/gpreempt-dkms_*.deb)
version=$(dpkg-deb -f "$package" Version)

step "unpack a kernel and DKMS"
for file in /packages/*.deb; do
	[ "$file" = "$package" ] || dpkg-deb -x "$file" /tmp/unpacked
done
# Directories that are links here are real ones in older packages.
for part in bin lib sbin; do
	[ ! -d "/tmp/unpacked/$part" ] || cp -a "/tmp/unpacked/$part/." "/usr/$part/"
done
for part in usr etc var boot; do
	[ ! -d "/tmp/unpacked/$part" ] || cp -a "/tmp/unpacked/$part/." "/$part/"
done
rm -rf /tmp/unpacked
release=$(ls /lib/modules)
depmod "$release"
stock_sum=$(sha256sum "/lib/modules/$release/kernel/drivers/gpu/drm/amd/amdgpu/"amdgpu.ko*)
mkdir -p /var/tmp /var/lib/dkms /etc/initramfs-tools
# An image with nothing but this driver, quick to make.
echo amdgpu > /etc/initramfs-tools/modules
sed -i -e 's/^MODULES=.*/MODULES=list/' -e 's/^COMPRESS=.*/COMPRESS=gzip/' /etc/initramfs-tools/initramfs.conf
update-initramfs -c -k "$release" 2>&1 | grep -v "missing firmware"
image_has | grep -q /kernel/drivers/ || wrong "the first image lacks the kernel's own amdgpu"

step "refuse: a kernel of another series, whose installation goes on"
mkdir -p /lib/modules/6.1.0-1-amd64/build/include/generated/uapi/linux
printf '#define LINUX_VERSION_%s\n' 'MAJOR 6' 'PATCHLEVEL 1' 'SUBLEVEL 1' \
	> /lib/modules/6.1.0-1-amd64/build/include/generated/uapi/linux/version.h
: > /lib/modules/6.1.0-1-amd64/build/.config

step "refuse: no source"
mv /usr/src/linux-source-6.12.tar.xz /usr/src/hidden
if dpkg --force-depends --force-unsafe-io -i "$package" 2> /tmp/refused; then
	wrong "the package was installed without a source"
fi
grep "looked for /usr/src/linux-source-6.12.tar.xz" /tmp/refused || wrong "no clear message: $(cat /tmp/refused)"
[ ! -e "/lib/modules/$release/updates" ] || wrong "something was installed"
mv /usr/src/hidden /usr/src/linux-source-6.12.tar.xz
/etc/kernel/postinst.d/gpreempt-dkms 6.1.0-1-amd64 2> /tmp/refused || wrong "the hook fails the installation of a kernel"
grep "no patches for Linux 6.1, only for: 6.12" /tmp/refused || wrong "no clear message: $(cat /tmp/refused)"
rm -r /lib/modules/6.1.0-1-amd64

step "build; refuse: Secure Boot, and a key that is not enrolled"
mkdir -p /sys/firmware/efi/efivars
printf '\006\000\000\000\001' > /sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c
# Firmware that knows the key once /tmp/enrolled is there.
cat > /usr/local/bin/mokutil <<'END'
#!/bin/sh
case $1 in
--sb-state) echo "SecureBoot enabled" ;;
--test-key) [ -e /tmp/enrolled ] && echo "$2 is already enrolled" || echo "$2 is not enrolled" ;;
esac
END
chmod +x /usr/local/bin/mokutil
begin=$(date +%s)
if dpkg --force-depends --configure gpreempt-dkms 2> /tmp/refused; then
	wrong "modules were installed that the machine would not load"
fi
echo "built in $(($(date +%s) - begin)) s"
grep "mokutil --import /var/lib/dkms/mok.pub" /tmp/refused || wrong "no clear message: $(cat /tmp/refused)"
dkms status gpreempt | grep ": built" || wrong "the modules were not built: $(cat /tmp/refused)"
[ ! -e "/lib/modules/$release/updates" ] || wrong "something was installed"
stock_is_untouched

step "install, with an enrolled key"
: > /tmp/enrolled
dpkg --force-depends --configure gpreempt-dkms
dkms status gpreempt | grep ": installed" || wrong "the modules are not installed"
for module in amdgpu gpreempt; do
	file=$(modinfo -k "$release" -n "$module")
	case $file in
	"/lib/modules/$release/updates/dkms/$module.ko"*) ;;
	*) wrong "$module is loaded from $file" ;;
	esac
	modinfo -k "$release" -F signer "$module" | grep "DKMS module signing key" || wrong "$module is not signed"
done
[ "$(modinfo -k "$release" -F version amdgpu)" = "gpreempt-$version" ] || wrong "amdgpu has another version"
image_has | grep /updates/dkms/ || wrong "the image has another amdgpu"
stock_is_untouched
/etc/kernel/postinst.d/gpreempt-dkms "$release"

step "keep what was built"
for module in amdgpu gpreempt; do
	file=$(modinfo -k "$release" -n "$module")
	case $file in
	*.xz) xz -dc "$file" ;;
	*) cat "$file" ;;
	esac > "/output/$module.ko"
	modinfo "/output/$module.ko" | grep -v -e ^parm -e ^alias -e ^firmware -e '^[[:space:]]' > "/output/$module.info"
done
cp "/var/lib/dkms/gpreempt/$version/$release/x86_64/log/make.log" /output/
echo "compiled $(grep -c ' CC \[M\] ' /output/make.log) files"
if grep -i "warning" /output/make.log; then
	wrong "there were warnings"
fi

step "remove"
dpkg --force-depends -P gpreempt-dkms
[ ! -e "/lib/modules/$release/updates" ] || wrong "modules stayed"
[ -z "$(dkms status gpreempt)" ] || wrong "DKMS still knows it: $(dkms status gpreempt)"
[ ! -e "/usr/src/gpreempt-$version" ] || wrong "the source stayed"
[ ! -e /etc/kernel/postinst.d/gpreempt-dkms ] || wrong "the hook stayed"
case $(modinfo -k "$release" -n amdgpu) in
"/lib/modules/$release/kernel/"*) ;;
*) wrong "amdgpu is loaded from $(modinfo -k "$release" -n amdgpu)" ;;
esac
image_has | grep /kernel/drivers/ || wrong "the image has another amdgpu"
stock_is_untouched
step "done"
