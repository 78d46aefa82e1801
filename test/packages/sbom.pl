# sbom.pl VERSION SECONDS FILE... - prints an SPDX 2.3 document of a release: its files with their
# checksums, and what they are made from and need.  The same arguments give the same bytes.
use strict;
use warnings;
use Digest::SHA;
use File::Basename;
use JSON::PP;
use POSIX qw(strftime);

my ($version, $seconds, @files) = @ARGV;
die "usage: sbom.pl VERSION SECONDS FILE...\n" unless @files;

sub package_of
{
	my ($name, $of, $license, $where) = @_;
	return {
		SPDXID => "SPDXRef-$name", name => $name, versionInfo => $of, licenseConcluded => $license,
		licenseDeclared => $license, downloadLocation => $where, filesAnalyzed => JSON::PP::false,
		copyrightText => 'NOASSERTION'
	};
}

sub related { return { spdxElementId => "SPDXRef-$_[0]", relationshipType => $_[1], relatedSpdxElement => "SPDXRef-$_[2]" } }

my @packages = (
	package_of('grnnd', $version, 'PostgreSQL', 'NOASSERTION'),
	package_of('PostgreSQL', '15 or newer', 'PostgreSQL', 'https://www.postgresql.org/ftp/source/'),
	package_of('pgvector', '0.7.0 or newer', 'PostgreSQL', 'https://github.com/pgvector/pgvector'));
my @related = (related('DOCUMENT', 'DESCRIBES', 'grnnd'), map { related('grnnd', 'DEPENDS_ON', $_) } qw(PostgreSQL pgvector));
my @list;
for my $path (@files)
{
	my $name = basename $path;
	my $id = 'File-' . $name =~ s/[^A-Za-z0-9.-]/-/gr;
	push @list, {
		SPDXID => "SPDXRef-$id", fileName => "./$name", licenseConcluded => 'NOASSERTION', copyrightText => 'NOASSERTION',
		checksums => [ map { { algorithm => "SHA$_", checksumValue => Digest::SHA->new($_)->addfile($path, 'b')->hexdigest } } 1, 256 ]
	};
	push @related, related('grnnd', 'CONTAINS', $id);
	if ($name =~ /-cuda/ && !grep { $_->{name} eq 'cuda-cudart' } @packages)
	{
		push @packages, package_of('cuda-cudart', '12 or 13', 'LicenseRef-NVIDIA-CUDA-EULA', 'https://developer.nvidia.com/cuda-toolkit');
		push @related, related('grnnd', 'STATIC_LINK', 'cuda-cudart');
	}
}
my $digest = Digest::SHA->new(256)->add(map { $_->{checksums}[1]{checksumValue} } @list)->hexdigest;
print JSON::PP->new->canonical->pretty->encode({
	spdxVersion => 'SPDX-2.3', dataLicense => 'CC0-1.0', SPDXID => 'SPDXRef-DOCUMENT', name => "grnnd-$version",
	documentNamespace => "https://pgxn.org/dist/grnnd/$version/$digest",
	creationInfo => { created => strftime('%Y-%m-%dT%H:%M:%SZ', gmtime $seconds), creators => ['Tool: sbom.pl'] },
	packages => \@packages, files => \@list, relationships => \@related,
	$#packages > 2 ? (hasExtractedLicensingInfos => [ { licenseId => 'LicenseRef-NVIDIA-CUDA-EULA',
		extractedText => 'https://docs.nvidia.com/cuda/eula/' } ]) : ()
});
