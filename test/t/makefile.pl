# What make says where something is missing: the first thing to install, by its package's
# name.  A stand-in for pg_config names folders that hold more and more of it.
use strict;
use warnings;

use File::Path qw(make_path);
use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;

my $source = "$FindBin::Bin/../..";
my $dir = PostgreSQL::Test::Utils::tempdir;
my ($include, $pg_config) = ("$dir/include", "$dir/pg_config");
my $pgxs = `$ENV{PG_CONFIG} --pgxs`;
chomp $pgxs;
mkdir $include;

sub make
{
	my ($named_pgxs) = @_;
	open my $file, '>', $pg_config or die $!;
	print $file <<END;
#!/bin/sh
case \$1 in
	--version) echo "PostgreSQL 17beta1 (Debian)" ;;
	--pgxs) echo $named_pgxs ;;
	--includedir-server | --includedir) echo $include ;;
esac
END
	close $file;
	chmod 0755, $pg_config;
	return said($pg_config);
}

sub said
{
	my ($program, @more) = @_;
	return `make -n -C '$source' PG_CONFIG='$program' @more 2>&1`;
}

like(said("$dir/none"), qr/there is no program '.*none'.*postgresql-server-dev-NN/, 'no pg_config');
like(make("$dir/none.mk"), qr/no .*none\.mk\. Install postgresql-server-dev-17 /, 'no makefiles');
like(make($pgxs), qr/no .*postgres\.h\. Install postgresql-server-dev-17 /, 'no postgres.h, nor a vector.h');
append_to_file("$include/postgres.h", '');
like(make($pgxs), qr/no .*libpq-fe\.h\. Install libpq-dev /, 'no libpq-fe.h');
append_to_file("$include/libpq-fe.h", '');
like(make($pgxs), qr/no .*vector\.h\. Install pgvector .*postgresql-17-pgvector /, 'no vector.h');
mkdir "$include/$_" for 'extension', 'extension/vector';
append_to_file("$include/extension/vector/vector.h", '');
like(make($pgxs), qr/too old: it has no sparsevec\.h\. Install pgvector 0\.7 or newer/, 'pgvector 0.6');
append_to_file("$include/extension/vector/sparsevec.h", '');
unlike(make($pgxs), qr/\*\*\*/, 'all is there');

# A first build for many kinds of GPU says what is quicker; a stand-in for nvcc knows three.
my $copy = "$dir/copy";
mkdir $copy;
system("tar -C '$source' -cf - Makefile grnnd.control cuda src sql doc | tar -C '$copy' -xf - --exclude='*.o'") == 0 or die 'no copy';
$source = $copy;
append_to_file("$dir/nvcc", "#!/bin/sh\nprintf 'sm_80\\nsm_90\\nsm_121\\n'\n");
chmod 0755, "$dir/nvcc";
my $nvcc = "NVCC='$dir/nvcc'";
my $wait = qr/GPUs of 2 kinds \(80 90\) take some minutes .* WITH_CUDA=no: /;
like(said($pg_config, $nvcc), $wait, 'kernels of many kinds');
unlike(said($pg_config, $nvcc, $_), qr/some minutes/, "no such word with $_") for 'CUDA_ARCHS=90', 'WITH_CUDA=no', 'clean';
{
	# One of two GPUs that a stand-in for nvidia-smi names is too old.
	local $ENV{PATH} = "$dir/smi:$ENV{PATH}";
	mkdir "$dir/smi";
	append_to_file("$dir/smi/nvidia-smi", "#!/bin/sh\nprintf '7.5\\n9.0\\n9.0\\n'\n");
	chmod 0755, "$dir/smi/nvidia-smi";
	my $said = said($pg_config, $nvcc, 'V=1');
	unlike($said, qr/some minutes/, 'nor where a GPU is here');
	is(`make -s -f cuda/gpu.mk -C '$copy' $nvcc --eval 'print: ; \@echo \$(CUDA_USE)' print`, "90\n", 'for that GPU');
}
append_to_file("$copy/grnnd_build", '');
unlike(said($pg_config, $nvcc), qr/some minutes/, 'nor when it was built');

# What "make install" put somewhere goes again, the pages for users too.
chomp(my $docs = `$ENV{PG_CONFIG} --docdir`);
make_path("$dir/to$docs/extension");
append_to_file("$dir/to$docs/extension/$_", '') for 'grnnd.md', 'grnnd-shards.md', 'other.md';
system("make -s -C '$copy' PG_CONFIG='$ENV{PG_CONFIG}' DESTDIR='$dir/to' uninstall") == 0 or die 'no uninstall';
is(join(' ', sort(slurp_dir("$dir/to$docs/extension"))), '. .. other.md', 'the pages are uninstalled');

done_testing();
