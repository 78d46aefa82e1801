# meta.pl - what is wrong with META.json by PGXN's specification 1.0.0
# (https://pgxn.org/meta/spec.txt): a line for each thing, so nothing when it is good.
use strict;
use warnings;

use FindBin;
use JSON::PP;

chdir "$FindBin::Bin/.." or die;

my $version = qr/^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)([a-z][-0-9a-z]*)?$/i;
my %licenses = map { $_ => 1 } qw(agpl_3 apache_1_1 apache_2_0 artistic_1 artistic_2 bsd freebsd gfdl_1_2 gfdl_1_3 gpl_1
	gpl_2 gpl_3 lgpl_2_1 lgpl_3_0 mit mozilla_1_0 mozilla_1_1 openssl perl_5 postgresql qpl_1_0 ssleay sun zlib
	open_source restricted unrestricted unknown);

sub text
{
	my ($file) = @_;
	open(my $handle, '<:raw', $file) or return undef;
	local $/;
	return scalar <$handle>;
}

sub wrong
{
	print "META.json: @_\n";
}

# A term: PGXN's word for a name.
sub term
{
	my ($name) = @_;
	return defined $name && !ref $name && $name =~ /^[^\s\/\\\p{Cc}]{2,}$/;
}

my $meta = eval { JSON::PP->new->utf8->decode(text('META.json')) };
if (ref $meta ne 'HASH')
{
	wrong($@ || 'no object');
	exit;
}

# What it must have, and may.
my @must = qw(name version abstract maintainer license provides meta-spec);
my @may = qw(description generated_by prereqs release_status resources tags no_index);
my %known = map { $_ => 1 } @must, @may;
wrong("no $_") for grep { !defined $meta->{$_} } @must;
wrong("unknown key $_") for grep { !$known{$_} && !/^x_/i } sort keys %$meta;
wrong('name') if !term($meta->{name});
wrong('version') if ($meta->{version} // '') !~ $version;
wrong($_) for grep { !length($meta->{$_} // '') } qw(abstract maintainer);
wrong('license') if !$licenses{ $meta->{license} // '' };
wrong('meta-spec') if ($meta->{'meta-spec'}{version} // '') ne '1.0.0';
wrong('release_status') if ($meta->{release_status} // 'stable') !~ /^(stable|testing|unstable)$/;
wrong("tag '$_'") for grep { !length || length > 255 || m{[/\\\p{Cc}]} } @{ $meta->{tags} // [] };

# All extensions are among what it provides, each of the version that its control file names.
my %controls;
for my $file (glob '*.control src/*/*.control')
{
	my ($name) = $file =~ m{([^/]+)\.control$};
	($controls{$name}) = text($file) =~ /^default_version\s*=\s*'(.*?)'/m;
}
wrong("does not provide $_") for grep { !$meta->{provides}{$_} } sort keys %controls;
for my $name (sort keys %{ $meta->{provides} // {} })
{
	my $provided = $meta->{provides}{$name};
	wrong("provides $name") if !term($name);
	wrong("provides $name: version") if ($provided->{version} // '') !~ $version;
	wrong("provides $name: no $_ '" . ($provided->{$_} // '') . "'") for grep { !-f($provided->{$_} // '') } qw(file docfile);
	my $control = $controls{$name} // 'none';
	wrong("provides $name: version $provided->{version}, and $control in $name.control")
		if $provided->{version} ne $control || $meta->{version} ne $control;
}

# What it requires: phases, relations, names, versions (0: any).
for my $phase (sort keys %{ $meta->{prereqs} // {} })
{
	wrong("phase $phase") if $phase !~ /^(configure|build|test|runtime|develop)$/;
	for my $relation (sort keys %{ $meta->{prereqs}{$phase} })
	{
		wrong("relation $relation") if $relation !~ /^(requires|recommends|suggests|conflicts)$/;
		my $names = $meta->{prereqs}{$phase}{$relation};
		wrong("$phase $relation $_") for grep { !term($_) || $names->{$_} !~ /^((>=?|<=?|[!=]=)\s*)?(0|\d+\.\d+\.\d+\w*)(,.*)?$/ } sort keys %$names;
	}
}
