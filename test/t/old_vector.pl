# CREATE EXTENSION grnnd beside a pgvector from before version 0.7 is one clear error.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $folder = `$ENV{PG_CONFIG} --sharedir`;
chomp $folder;
my $script = "$folder/extension/vector--0.0.1.sql";
plan skip_all => "cannot write to $folder/extension" unless -w "$folder/extension";

my $node = PostgreSQL::Test::Cluster->new('old_vector');
$node->init;
$node->start;
append_to_file($script, "CREATE DOMAIN vector AS float4[];\n");
my ($rc, $out, $err) = $node->psql('postgres', "CREATE EXTENSION vector VERSION '0.0.1'", on_error_stop => 1);
unlink $script;
is($err, '', 'a vector without sparsevec');
($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\nCREATE EXTENSION grnnd");
like($err, qr/ERROR:  55000: extension "vector" of this database is too old for grnnd.*HINT:  Install pgvector 0\.7/s, 'refused');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_am WHERE amname = 'grnnd'"), 0, 'nothing is left of it');
$node->safe_psql('postgres', 'DROP EXTENSION vector; CREATE EXTENSION grnnd CASCADE');
$node->stop;
done_testing();
