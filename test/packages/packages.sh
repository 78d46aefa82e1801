#!/bin/bash
# packages.sh deb|rpm|arm64 - makes packages under .work/packages, and tries what it can of them.
#
#   deb     .deb of PostgreSQL MAJOR (15) with Debian's tools, lintian, and trial.sh in a clean Debian root
#   rpm     .rpm by grnnd.spec against Debian's PostgreSQL, rpmlint
#   arm64   the library and the builder of CPUs for 64-bit Arm; the builder runs under qemu
#
# debian/ is made there from control.in and rules, since dpkg wants it at the top.  pgvector is that
# of Debian's source package, built for MAJOR by its own rules, where Debian has no package of it.
# WITH_CUDA=auto|yes|no, CUDA_ARCHS as for make; -cuda packages need nvcc.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "${BASH_SOURCE[0]}")/../server.sh"

HERE=$TOP/test/packages
OUT=$WORK/packages
PG_MAJOR=${MAJOR:-15}
VERSION=$(sed -n "s/^default_version = '\(.*\)'/\1/p" "$TOP/grnnd.control")
export PG_SUPPORTED_VERSIONS=$PG_MAJOR
export DEB_BUILD_OPTIONS=nocheck

# quietly LOG COMMAND...: shows the log's end where it fails.
quietly()
{
	local log=$OUT/$1.log

	shift
	"$@" >"$log" 2>&1 || { tail -n 20 "$log" >&2; die "$1 failed (all of it: $log)"; }
}

# need PROGRAM=PACKAGE...
need()
{
	local want=() pair

	for pair; do
		command -v "${pair%%=*}" >/dev/null || want+=("${pair#*=}")
	done
	[ ${#want[@]} = 0 ] || apt_install "${want[@]}"
}

# sources FOLDER: what git knows of the tree, or all of it where there is no git.
sources()
{
	rm -rf "${1:?}"
	copy_tree "$1"
	rm -rf "$1/.ci"
}

# pgvector's package for PG_MAJOR, built once; VECTOR_ROOT is its unpacked form.
make_vector()
{
	local folder=$OUT/pgvector deb

	VECTOR_ROOT=$OUT/vector-$PG_MAJOR
	export VECTOR_ROOT
	VECTOR_DEB=$(compgen -G "$OUT/postgresql-$PG_MAJOR-pgvector_*.deb")
	[ -n "$VECTOR_DEB" ] && [ -d "$VECTOR_ROOT" ] && return
	quietly pgvector-source debian_source trixie pgvector
	rm -rf "$folder" "$VECTOR_ROOT"
	quietly pgvector-unpack dpkg-source -x "$(ls "$WORK"/apt/trixie/pgvector_*.dsc)" "$folder"
	(cd "$folder" && pg_buildext updatecontrol && dpkg-buildpackage -b -d -us -uc) >"$OUT/pgvector.log" 2>&1 ||
		{ tail -n 20 "$OUT/pgvector.log" >&2; die "pgvector's package failed (all of it: $OUT/pgvector.log)"; }
	deb=$(compgen -G "$OUT/postgresql-$PG_MAJOR-pgvector_*.deb") || die "no package of pgvector in $OUT"
	VECTOR_DEB=$deb
	dpkg-deb -x "$deb" "$VECTOR_ROOT"
}

with_cuda()
{
	case ${WITH_CUDA:-auto} in
		yes) echo yes ;;
		no) echo no ;;
		*) if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then echo yes; else echo no; fi ;;
	esac
}

# debian_folder FOLDER: debian/ of the sources there.
debian_folder()
{
	local debian=$1/debian

	mkdir -p "$debian/source"
	cp "$HERE/control.in" "$HERE/rules" "$debian/"
	chmod +x "$debian/rules"
	# Of what is not built, no package either.
	[ "$WITH_CUDA" = yes ] ||
		sed -i -e '/^Package: .*-cuda$/,$d' -e '/^Suggests: .*-cuda$/d' "$debian/control.in"
	echo "15+" >"$debian/pgversions"
	echo "3.0 (native)" >"$debian/source/format"
	printf 'grnnd (%s) unstable; urgency=medium\n\n  * %s\n\n -- %s  %s\n' "$VERSION" \
		"See CHANGELOG.md in the sources." "$(sed -n 's/^Maintainer: //p' "$debian/control.in")" \
		"$(date -R -r "$TOP/CHANGELOG.md")" >"$debian/changelog"
	{
		printf 'Format: %s\nUpstream-Name: grnnd\n\nFiles: *\nCopyright: %s\nLicense: PostgreSQL\n' \
			https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/ \
			"$(sed -n 's/^Copyright (c) //p' "$TOP/LICENSE")"
		sed -n '/^Permission/,$p' "$TOP/LICENSE" | fold -s -w 78 | sed -e 's/ *$//' -e 's/^$/./' -e 's/^/ /'
		[ "$WITH_CUDA" = no ] || printf '\nComment: %s\n %s\n' \
			"the -cuda packages hold NVIDIA's CUDA runtime library, linked statically," \
			"which the CUDA Toolkit's licence allows to be passed on (its attachment A)."
	} >"$debian/copyright"
	(cd "$1" && pg_buildext updatecontrol)
}

make_deb()
{
	local tree=$OUT/grnnd-$VERSION suppress

	need dh=debhelper pg_buildext=postgresql-server-dev-all lintian=lintian \
		dpkg-buildpackage=dpkg-dev gcc=build-essential fakeroot=fakeroot
	mkdir -p "$OUT"
	make_vector
	WITH_CUDA=$(with_cuda)
	export WITH_CUDA CUDA_ARCHS
	sources "$tree"
	debian_folder "$tree"
	rm -f "$OUT"/postgresql-*-grnnd*.deb
	(cd "$tree" && dpkg-buildpackage -b -d -us -uc) >"$OUT/deb.log" 2>&1 ||
		{ tail -n 20 "$OUT/deb.log" >&2; die "dpkg-buildpackage failed (all of it: $OUT/deb.log)"; }
	# There is no bug of Debian's to close, and nobody's address to write to.
	suppress=initial-upload-closes-no-bugs,bogus-mail-host-in-debian-changelog,bogus-mail-host
	lintian --allow-root --fail-on error,warning --suppress-tags "$suppress" \
		"$OUT"/grnnd_*.changes || die "lintian complains"
	ls "$OUT"/postgresql-*-grnnd*.deb
}

# The packages in a Debian that has PostgreSQL and nothing else; root's chroot.
try_deb()
{
	local root tar=$OUT/root-$PG_MAJOR.tar

	is_root || { echo "grnnd: only root can try packages in a clean Debian root"; return; }
	need mmdebstrap=mmdebstrap unshare=util-linux
	# A root is made once (a minute); it holds no package of ours.
	[ -e "$tar" ] || { quietly clean-root mmdebstrap --variant=apt --include="postgresql-$PG_MAJOR" bookworm "${tar%.tar}.part.tar" \
		"deb https://deb.debian.org/debian bookworm main" \
		"deb https://deb.debian.org/debian-security bookworm-security main" && mv "${tar%.tar}.part.tar" "$tar"; }
	make_room packages
	root=$RUN/root
	mkdir "$root"
	tar -C "$root" -xf "$tar" --exclude='./dev/*' || die "cannot unpack $tar"
	mkdir "$root/debs"
	cp "$VECTOR_DEB" "$OUT"/postgresql-"$PG_MAJOR"-grnnd*_*.deb "$HERE/trial.sh" "$root/debs/"
	rm -f "$root"/debs/*dbgsym*
	# shellcheck disable=SC2016
	unshare --mount --pid --ipc --net --fork bash -c '
		cd "$1" && mount -t proc proc proc && mount -t tmpfs tmpfs dev && mkdir dev/shm dev/pts &&
		mknod -m 666 dev/null c 1 3 && mknod -m 666 dev/zero c 1 5 && mknod -m 666 dev/urandom c 1 9 &&
		mknod -m 666 dev/random c 1 8 && mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts && ln -s pts/ptmx dev/ptmx && ln -s /proc/self/fd dev/fd && chmod 1777 dev/shm &&
		exec chroot . env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 bash /debs/trial.sh "$2"' \
		trial "$root" "$PG_MAJOR"
}

make_rpm()
{
	local top=$OUT/rpm

	need rpmbuild=rpm pg_buildext=postgresql-server-dev-all gcc=build-essential
	mkdir -p "$OUT"
	make_vector
	sources "$OUT/grnnd-$VERSION"
	rm -rf "$top"
	mkdir -p "$top/SOURCES"
	tar -C "$OUT" -czf "$top/SOURCES/grnnd-$VERSION.tar.gz" "grnnd-$VERSION"
	# No RPM of PostgreSQL is installed here, so what the spec requires for a build is not asked for.
	quietly rpm rpmbuild -ba --nodeps --define "_topdir $top" --define "pgmajor $PG_MAJOR" \
		--define "pg_config /usr/lib/postgresql/$PG_MAJOR/bin/pg_config" \
		--define "vector_root $VECTOR_ROOT" --define "grnnd_version $VERSION" \
		--define "with_cuda $([ "$(with_cuda)" = no ] && echo 0 || echo 1)" "$HERE/grnnd.spec"
	find "$top" -name '*.rpm'
	! command -v rpmlint >/dev/null || rpmlint "$HERE/grnnd.spec" || die "rpmlint complains"
}

make_arm64()
{
	local folder=$OUT/arm64 apt=$OUT/arm64-apt triplet=aarch64-linux-gnu options include

	need $triplet-gcc=crossbuild-essential-arm64 qemu-aarch64-static=qemu-user-static \
		pg_buildext=postgresql-server-dev-all
	mkdir -p "$OUT"
	make_vector
	# PostgreSQL's headers of that architecture: pg_config.h differs.
	if [ ! -d "$apt/root" ]; then
		mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
		echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
			"https://deb.debian.org/debian bookworm main" >"$apt/sources.list"
		options=(-o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=-
			-o "Dir::State::lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o "APT::Architecture=arm64"
			-o "APT::Architectures=arm64" -o "APT::Sandbox::User=$(id -un)")
		quietly arm64-lists apt-get "${options[@]}" update
		(cd "$apt" && apt-get "${options[@]}" download "postgresql-server-dev-$PG_MAJOR") >"$OUT/arm64-apt.log" 2>&1 ||
			die "cannot download PostgreSQL's headers (see $OUT/arm64-apt.log)"
		dpkg-deb -x "$(ls "$apt"/postgresql-server-dev-*.deb)" "$apt/root.part" && mv "$apt/root.part" "$apt/root"
	fi
	sources "$folder"
	include=/usr/include/postgresql/$PG_MAJOR/server
	quietly arm64 make -C "$folder" -j"$CPUS" PG_CONFIG="/usr/lib/postgresql/$PG_MAJOR/bin/pg_config" WITH_CUDA=no \
		CC=$triplet-gcc AR=$triplet-ar PG_INCLUDE="$apt/root$include" VECTOR_INCLUDE="$VECTOR_ROOT$include/extension/vector" \
		includedir_server="$apt/root$include"
	file "$folder/grnnd.so" "$folder/grnnd_build"
	QEMU_LD_PREFIX=/usr/$triplet qemu-aarch64-static "$folder/grnnd_build" --help | head -n 3
}

case ${1:-} in
	deb) make_deb && try_deb ;;
	rpm) make_rpm ;;
	arm64) make_arm64 ;;
	*) die "usage: packages.sh deb|rpm|arm64" ;;
esac
