#!/bin/bash
# packages.sh dist|deb|rpm|container|arm64|release - makes packages under .work/packages, and tries what
# it can of them.
#
#   dist    the .zip that PGXN takes; unpacked, compiled, installed, tried with all SQL and isolation tests and
#           removed in a clean root of the Debian that has MAJOR: 15 bookworm, 17 trixie, 18 forky, 19 experimental
#   deb     .deb of PostgreSQL MAJOR (15) with Debian's tools, lintian, and trial.sh in a clean Debian root
#   rpm     .rpm by grnnd.spec against Debian's PostgreSQL, rpmlint; installed, tried and removed there
#   container   the images of the Containerfile that need no GPU, by buildah on a stand-in of their base
#   arm64   the libraries and the builder of CPUs for 64-bit Arm; the builder runs under qemu
#   release all of them; .work/release gets the files, an SBOM (SPDX) and SHA256SUMS.  The .deb is made
#           twice and must have the same bytes.
#
# SIGN=KEY signs SHA256SUMS of a release, or the zip of dist, with that key of gpg: FILE.asc.
#
# debian/ is made there from control.in and rules, since dpkg wants it at the top.  pgvector is the
# installed package, or is made from the folder VECTOR, or else from Debian's source package.
# MAJOR (15): a PostgreSQL whose server and headers apt has.  WITH_CUDA=auto|yes|no, CUDA_ARCHS as for
# make; -cuda packages need nvcc.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "${BASH_SOURCE[0]}")/../server.sh"

HERE=$TOP/test/packages
OUT=$WORK/packages
PG_MAJOR=${MAJOR:-15}
VERSION=$(sed -n "s/^default_version = '\(.*\)'/\1/p" "$TOP/grnnd.control")
# what pgvector's and our rules ask of debhelper; pg_buildext may be there without it
PGXS_LOOP=/usr/share/perl5/Debian/Debhelper/Sequence/pgxs_loop.pm
export PG_SUPPORTED_VERSIONS=$PG_MAJOR
export DEB_BUILD_OPTIONS=nocheck

# quietly LOG COMMAND...: shows the log's end where it fails.
quietly()
{
	local log=$OUT/$1.log

	shift
	"$@" >"$log" 2>&1 || { tail -n 20 "$log" >&2; die "$1 failed (all of it: $log)"; }
}

# need PROGRAM|FILE=PACKAGE...
need()
{
	local want=() pair

	for pair; do
		command -v "${pair%%=*}" >/dev/null || [ -e "${pair%%=*}" ] || want+=("${pair#*=}")
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

# vector_deb FOLDER: a package of the pgvector whose source is there, as small as a trial needs.
vector_deb()
{
	local tree=$OUT/pgvector root=$OUT/pgvector-root pg_config=/usr/lib/postgresql/$PG_MAJOR/bin/pg_config version

	rm -rf "$tree" "$root"
	cp -r "$1" "$tree"
	version=$(sed -n "s/^default_version = '\(.*\)'/\1/p" "$tree/vector.control")
	make -C "$tree" clean PG_CONFIG="$pg_config"
	make -C "$tree" -j"$CPUS" PG_CONFIG="$pg_config" OPTFLAGS= with_llvm=no &&
	make -C "$tree" PG_CONFIG="$pg_config" OPTFLAGS= with_llvm=no DESTDIR="$root" install || return
	mkdir "$root/DEBIAN"
	printf '%s\n' "Package: postgresql-$PG_MAJOR-pgvector" "Version: $version-0" "Architecture: $(dpkg --print-architecture)" \
		"Depends: postgresql-$PG_MAJOR" "Maintainer: nobody <nobody@localhost>" "Description: pgvector, for trials" >"$root/DEBIAN/control"
	dpkg-deb --root-owner-group --build "$root" "$OUT/postgresql-$PG_MAJOR-pgvector_$version-0_$(dpkg --print-architecture).deb"
}

# pgvector's package for PG_MAJOR, made once; VECTOR_ROOT is its unpacked form.
make_vector()
{
	local folder=$OUT/pgvector deb

	VECTOR_ROOT=$OUT/vector-$PG_MAJOR
	export VECTOR_ROOT
	VECTOR_DEB=$(compgen -G "$OUT/postgresql-$PG_MAJOR-pgvector_*.deb")
	[ -n "$VECTOR_DEB" ] && [ -d "$VECTOR_ROOT" ] && return
	rm -rf "$folder" "$VECTOR_ROOT"
	if [ -n "${VECTOR:-}" ]; then
		quietly pgvector vector_deb "$VECTOR"
	elif (cd "$OUT" && apt-get download "postgresql-$PG_MAJOR-pgvector") >"$OUT/pgvector.log" 2>&1; then
		:
	else
		quietly pgvector-source debian_source trixie pgvector
		quietly pgvector-unpack dpkg-source -x "$(ls "$WORK"/apt/trixie/pgvector_*.dsc)" "$folder"
		(cd "$folder" && pg_buildext updatecontrol && dpkg-buildpackage -b -d -us -uc) >"$OUT/pgvector.log" 2>&1 ||
			{ tail -n 20 "$OUT/pgvector.log" >&2; die "pgvector's package failed (all of it: $OUT/pgvector.log)"; }
	fi
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

# The time that packages carry, in seconds since 1970: the commit's, so that their bytes are the same again.
source_date()
{
	git -C "$TOP" log -1 --format=%ct 2>/dev/null || stat -c %Y "$TOP/CHANGELOG.md"
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
		"$(date -R -u -d "@$(source_date)")" >"$debian/changelog"
	{
		printf 'Format: %s\nUpstream-Name: grnnd\n\nFiles: *\nCopyright: %s\nLicense: PostgreSQL\n' \
			https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/ \
			"$(sed -n 's/^Copyright (c) //p' "$TOP/LICENSE")"
		sed -n '/^Permission/,$p' "$TOP/LICENSE" | fold -s -w 78 | sed -e 's/ *$//' -e 's/^$/./' -e 's/^/ /'
		[ "$WITH_CUDA" = no ] || printf '\nComment: %s\n %s\n' \
			"the -cuda packages hold NVIDIA's CUDA runtime library, linked statically," \
			"which the CUDA Toolkit's license allows to be passed on (its attachment A)."
	} >"$debian/copyright"
	(cd "$1" && pg_buildext updatecontrol)
}

make_deb()
{
	local tree=$OUT/grnnd-$VERSION suppress

	need dh=debhelper "$PGXS_LOOP"=postgresql-server-dev-all lintian=lintian \
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
	hardened "$tree/debian"
	ls "$OUT"/postgresql-*-grnnd*.deb
}

# clean_root [PACKAGE...]: ROOT, a Debian that has PostgreSQL, those packages and nothing of ours, with
# trial.sh in /debs.
clean_root()
{
	local tar=$OUT/root-$PG_MAJOR${1:+-$1}.tar packages=postgresql-$PG_MAJOR name suite sources
	local debian="deb https://deb.debian.org/debian"

	for name; do packages+=,$name; done
	suite=$(debian_suite "$PG_MAJOR") || exit 1
	sources=("$debian $suite main")
	case $suite in
		bookworm) sources+=("deb https://deb.debian.org/debian-security bookworm-security main") ;;
		experimental)
			# no Debian of its own: sid, with the libraries that its server needs
			suite=sid
			sources=("$debian sid main" "$debian experimental main")
			packages+=,libpq5/experimental,libpq-dev/experimental ;;
	esac
	need mmdebstrap=mmdebstrap unshare=util-linux
	# It is made once (a minute).  (A mirror's copy of a suite may be older than the suite's lists allow.)
	[ -e "$tar" ] || { quietly clean-root mmdebstrap --variant=apt --aptopt='Acquire::Check-Valid-Until "false"' --include="$packages" "$suite" \
		"${tar%.tar}.part.tar" "${sources[@]}" && mv "${tar%.tar}.part.tar" "$tar"; }
	[ -n "$RUN" ] || make_room packages
	ROOT=$RUN/root
	rm -rf "$ROOT"
	mkdir "$ROOT"
	tar -C "$ROOT" -xf "$tar" --exclude='./dev/*' || die "cannot unpack $tar"
	mkdir "$ROOT/debs"
	cp "$HERE/trial.sh" "$ROOT/debs/"
}

# hardened FOLDER: every library and program of ours below it.
hardened()
{
	local files

	mapfile -t files < <(find "$1" -type f \( -name 'grnnd*.so' -o -name 'grnnd_build*' ! -name '*.*' \))
	[ ${#files[@]} -ge 5 ] || die "no libraries and programs in $1"
	bash "$TOP/test/hardened.sh" "${files[@]}" || die "not hardened"
	echo "ok hardened: ${#files[@]} files"
}

# trial KIND: trial.sh in ROOT, in a chroot of its own processes and network.
trial()
{
	# shellcheck disable=SC2016
	unshare --mount --pid --ipc --net --fork bash -c '
		cd "$1" && mount -t proc proc proc && mount -t tmpfs tmpfs dev && mkdir dev/shm dev/pts &&
		mknod -m 666 dev/null c 1 3 && mknod -m 666 dev/zero c 1 5 && mknod -m 666 dev/urandom c 1 9 &&
		mknod -m 666 dev/random c 1 8 && mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts && ln -s pts/ptmx dev/ptmx && ln -s /proc/self/fd dev/fd && chmod 1777 dev/shm &&
		exec chroot . env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 bash /debs/trial.sh "$2" "$3"' \
		trial "$ROOT" "$PG_MAJOR" "$1"
}

# The packages in a clean root; root's chroot.
try_deb()
{
	is_root || { echo "grnnd: only root can try packages in a clean Debian root"; return; }
	clean_root
	cp "$VECTOR_DEB" "$OUT"/postgresql-"$PG_MAJOR"-grnnd*_*.deb "$ROOT/debs/"
	rm -f "$ROOT"/debs/*dbgsym*
	trial deb
}

# The RPMs by rpm, for Debian's folders of PostgreSQL that they were made for.
try_rpm()
{
	local name=grnnd_$PG_MAJOR rpms=()

	is_root || { echo "grnnd: only root can try packages in a clean Debian root"; return; }
	clean_root
	cp "$VECTOR_DEB" "$ROOT/debs/"
	mapfile -t rpms < <(find "$OUT/rpm/RPMS" -name "$name-[0-9]*.rpm" -o -name "$name-cuda-[0-9]*.rpm")
	# Debian's rpm wants to be told that it is not alien here.
	quietly rpm-install rpm --force-debian --root "$ROOT" -i --nodeps "${rpms[@]}"
	echo "ok rpm installs ${#rpms[@]}"
	hardened "$ROOT/usr/lib/postgresql"
	trial rpm || return
	# (PostgreSQL's user owns nothing of them, and documents are files like others)
	quietly rpm-verify rpm --force-debian --root "$ROOT" -V --nodeps "$name"
	mapfile -t rpms < <(rpm --force-debian --root "$ROOT" -qa "$name" "$name-cuda")
	quietly rpm-erase rpm --force-debian --root "$ROOT" -e "${rpms[@]}"
	! compgen -G "$ROOT/usr/lib/postgresql/$PG_MAJOR/lib/grnnd*" || die "rpm -e has left files"
	echo "ok rpm removes them"
}

# The Containerfile's images for processors, by buildah without a registry: its base image,
# postgres:MAJOR-bookworm, is a clean root with pgvector in an apt repository of its own.
make_container()
{
	local store=$OUT/containers base=docker.io/library/postgres:$PG_MAJOR-bookworm box folder image failed

	is_root || die "only root can build images without user namespaces"
	need buildah=buildah dpkg-scanpackages=dpkg-dev "$PGXS_LOOP"=postgresql-server-dev-all gcc=build-essential
	mkdir -p "$OUT"
	make_vector
	clean_root
	cp "$VECTOR_DEB" "$ROOT/debs/"
	bud() { buildah --root "$store/store" --runroot "$store/run" --storage-driver vfs "$@"; }
	if ! bud inspect --type image "$base" >"$OUT/base.log" 2>&1; then
		mkdir "$ROOT/opt/pgvector"
		mv "$ROOT"/debs/*.deb "$ROOT/opt/pgvector/"
		(cd "$ROOT/opt/pgvector" && dpkg-scanpackages . >Packages) 2>>"$OUT/base.log"
		echo "deb [trusted=yes] file:/opt/pgvector ./" >"$ROOT/etc/apt/sources.list.d/pgvector.list"
		# whom this machine trusts, its own proxy for one
		mkdir -p "$ROOT/etc/ssl/certs"
		cp /etc/ssl/certs/ca-certificates.crt "$ROOT/etc/ssl/certs/"
		box=$(bud from scratch) || die "buildah makes no container"
		folder=$(bud mount "$box") || die "buildah makes no container"
		cp -a "$ROOT/." "$folder/"
		quietly base bud config --env "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/postgresql/$PG_MAJOR/bin" "$box"
		quietly base bud commit --rm "$box" "$base"
	fi
	sources "$OUT/grnnd-$VERSION"
	for image in cpu extension; do
		quietly "container-$image" bud build --isolation chroot --pull=never --layers --build-arg "PG_MAJOR=$PG_MAJOR" \
			--target "$image" -f "$HERE/Containerfile" -t "grnnd-$image" "$OUT/grnnd-$VERSION"
		echo "ok image $image"
	done
	box=$(bud from --pull=never "grnnd-extension") || die "no image grnnd-extension"
	folder=$(bud mount "$box") || die "no image grnnd-extension"
	(cd "$folder" && ls lib/grnnd{,_tools,_build_server}.so lib/grnnd_build{,_remote} share/extension/grnnd{,_tools,_build_server}.control) || die "the image of files alone lacks some"
	hardened "$folder"
	bud rm "$box" >/dev/null
	box=$(bud from --pull=never "grnnd-cpu") || die "no image grnnd-cpu"
	folder=$(bud mount "$box") || die "no image grnnd-cpu"
	rm -rf "${folder:?}/debs"
	mkdir "$folder/debs"
	cp "$HERE/trial.sh" "$folder/debs/"
	bud run --isolation chroot "$box" -- env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 bash /debs/trial.sh "$PG_MAJOR" image
	failed=$?
	bud rm "$box" >/dev/null
	return "$failed"
}

make_rpm()
{
	local top=$OUT/rpm

	need rpmbuild=rpm "$PGXS_LOOP"=postgresql-server-dev-all gcc=build-essential
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
		"$PGXS_LOOP"=postgresql-server-dev-all
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
		includedir_server="$apt/root$include" grnnd_build grnnd_tools.so grnnd_build_server.so
	file "$folder"/grnnd*.so "$folder/grnnd_build"
	QEMU_LD_PREFIX=/usr/$triplet qemu-aarch64-static "$folder/grnnd_build" --help | head -n 3
}

# The sources as git has them, in the same bytes for the same commit.
make_dist()
{
	need git=git zip=zip
	mkdir -p "$OUT"
	DIST=$OUT/grnnd-$VERSION.zip
	git -C "$TOP" archive --format=zip --prefix="grnnd-$VERSION/" -o "$DIST" HEAD ||
		die "make dist wants a git checkout"
	git -C "$TOP" diff --quiet HEAD || echo "grnnd: $DIST is of the last commit, without what has changed since"
	echo "$DIST"
}

# A clean root compiles, installs, tries and removes them, with pgvector from the folder VECTOR or Debian's source.
try_dist()
{
	local suite=trixie

	is_root || { echo "grnnd: only root can try sources in a clean Debian root"; return; }
	clean_root build-essential "postgresql-server-dev-$PG_MAJOR" unzip
	cp "$DIST" "$ROOT/debs/"
	mkdir "$ROOT/debs/pgvector"
	if [ -n "${VECTOR:-}" ]; then
		cp -r "$VECTOR/." "$ROOT/debs/pgvector/"
	else
		[ "$PG_MAJOR" -lt 18 ] || suite=forky
		quietly pgvector-source debian_source "$suite" pgvector
		unpack_source "$suite" pgvector "$ROOT/debs/pgvector"
	fi
	trial dist
}

# sign FILE: FILE.asc, and proves it, where SIGN names a key.
sign()
{
	[ -n "${SIGN:-}" ] || return 0
	gpg --batch --yes --local-user "$SIGN" --armor --detach-sign "$1" && gpg --batch --verify "$1.asc" "$1" || die "no signature"
	echo "ok signed ${1##*/}"
}

# Every package here, into .work/release.
make_release()
{
	local to=$WORK/release first sum file

	rm -rf "$to"
	mkdir -p "$to"
	make_dist && try_dist || die "the sources fail"
	make_deb || die "no .deb"
	first=$(cd "$OUT" && sha256sum postgresql-*-grnnd*.deb)
	make_deb || die "no .deb"
	sum=$(cd "$OUT" && sha256sum postgresql-*-grnnd*.deb)
	[ "$first" = "$sum" ] || die "the .deb differs when made again: $first; $sum"
	echo "ok the .deb is made twice, with the same bytes"
	try_deb || die "the .deb fails"
	make_rpm && try_rpm || die "the .rpm fails"
	make_container || die "the images fail"
	make_arm64 || die "arm64 fails"
	cp "$DIST" "$OUT"/postgresql-"$PG_MAJOR"-grnnd*.deb "$to/"
	find "$OUT/rpm" -name '*.rpm' -exec cp {} "$to/" \;
	rm -f "$to"/*dbgsym* "$to"/*debuginfo* "$to"/*debugsource*
	tar -C "$OUT/arm64" --sort=name --owner=0 --group=0 --mtime="@$(source_date)" -czf "$to/grnnd-$VERSION-pg$PG_MAJOR-arm64.tar.gz" \
		grnnd.so grnnd_tools.so grnnd_build_server.so grnnd_build
	perl "$HERE/sbom.pl" "$VERSION" "$(source_date)" "$to"/* >"$OUT/sbom" || die "no SBOM"
	mv "$OUT/sbom" "$to/grnnd-$VERSION.spdx.json"
	(cd "$to" && sha256sum -- * >SHA256SUMS && sha256sum --quiet -c SHA256SUMS) || die "no checksums"
	sign "$to/SHA256SUMS"
	for file in "$to"/*; do echo "ok release ${file##*/}"; done
}

case ${1:-} in
	dist) make_dist && try_dist && sign "$DIST" ;;
	release) make_release ;;
	deb) make_deb && try_deb ;;
	rpm) make_rpm && try_rpm ;;
	container) make_container ;;
	arm64) make_arm64 ;;
	*) die "usage: packages.sh dist|deb|rpm|container|arm64|release" ;;
esac
