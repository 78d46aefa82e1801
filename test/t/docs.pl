# The pages for users, README.md and doc/: every SQL block runs, those that show their output have it,
# links lead somewhere, the reference and the list of messages are whole and true, and the prose keeps
# the rules of test/prose.pl.
#
# The blocks of a page run in one psql session, in a database of the page's own:
#   ```sql          runs; '[...]' stands for a vector of 384 dimensions
#   ```text         what psql shows for the block before
#   ```sh, ```console   are not looked at
#   ```python       is what test/clients/with_examples.py and with_page.py run
# lib/docs.sql has what a page finds: see %finds.
use strict;
use warnings;

use GrnndTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = $ENV{TESTDIR};
my @pages = ('README.md', map { s{^\Q$top\E/}{}r } sort glob "$top/doc/*.md");
my $vector = '[' . join(',', map { sprintf '%.4f', sin($_ * $_) } 1 .. 384) . ']';

my $node = PostgreSQL::Test::Cluster->new('docs');
$node->init;
$node->append_conf('postgresql.conf', q(
autovacuum = off
grnnd.background_fit = off
fsync = off
shared_buffers = 256MB
max_parallel_workers_per_gather = 0
timezone = UTC
grnnd.build_device = cpu
));
$node->start;

# Blocks of a page: {line, language, text}.
sub blocks
{
	my ($page) = @_;
	my (@blocks, $open);
	my $line = 0;
	for (split /\n/, slurp_file("$top/$page"))
	{
		$line++;
		if ($open && /^\s*```\s*$/) { push @blocks, $open; undef $open; }
		elsif ($open) { $open->{text} .= "$_\n"; }
		elsif (/^\s*```(\w*)/) { $open = { line => $line, language => $1, text => '' }; }
	}
	push @blocks, { %$open, language => 'no end' } if $open;
	return @blocks;
}

# What a page's database holds at first: documents with indexes of pgvector (hnsw); also items with an
# index (items, of most pages); items and the extension grnnd_tools, which the page makes in a block for the
# shell (tools); or the sample as make demo KEEP=1 leaves it (sample).
my %finds = (
	'README.md' => 'hnsw', 'doc/grnnd-tutorial.md' => 'hnsw', 'doc/grnnd-shards.md' => 'tools',
	map { ("doc/grnnd-$_.md" => 'sample') } qw(examples hybrid row-graph));

# Makes databases of these contents, for pages to copy.
sub make_fixtures
{
	my %part = map { /^(\w+):\n(.*)/s ? ($1 => $2) : () }
		split /^-- (?=\w+:$)/m, slurp_file("$top/test/lib/docs.sql");
	my $copy = '';
	for my $name ('glosses', 'queries')
	{
		my $file = PostgreSQL::Test::Utils::tempdir() . "/$name.copy";
		system("python3 '$top/test/data/sample.py' $name >'$file'") == 0 or die "sample.py $name";
		$copy .= "COPY $name FROM '$file';\n";
	}
	my %sql = (
		hnsw => $part{hnsw},
		items => "$part{hnsw}$part{items}",
		tools => "$part{hnsw}$part{items}CREATE EXTENSION grnnd_tools;",
		sample => "$part{sample}$copy$part{sample_index}");
	for my $name (sort keys %sql)
	{
		$node->safe_psql('postgres', "CREATE DATABASE $name");
		$node->safe_psql($name, $sql{$name});
	}
}

# What psql shows without blanks at ends of lines; a plan without what PostgreSQL before 17 shows otherwise.
sub shown
{
	my ($text) = @_;
	$text =~ s/[ \t]+$//mg;
	$text =~ s/\n+\z//;
	if ($text =~ s/^ *QUERY PLAN\n-+\n//)
	{
		$text =~ s/\(InitPlan (\d+)\)\.col1/'$' . ($1 - 1)/ge;
		$text =~ s/(InitPlan \d+) \(returns \$\d+\)/$1/g;
	}
	return $text;
}

sub check_blocks
{
	my ($page) = @_;
	my $database = $page =~ s/\W+/_/gr;
	my @blocks = blocks($page);
	my @wrong = map { "$page:$_->{line}: a block of '$_->{language}'" }
		grep { $_->{language} !~ /^(sql|text|sh|console|python)$/ } @blocks;
	my @sql = grep { $_->{language} eq 'sql' } @blocks;
	my $script = '';
	for my $block (@sql)
	{
		my $text = $block->{text} =~ s/'\[\.\.\.\]'/'$vector'/gr;
		$script .= "\\echo \@\@$block->{line}\n$text\n";
	}
	$node->safe_psql('postgres', sprintf 'CREATE DATABASE "%s" TEMPLATE %s', $database, $finds{$page} // 'items')
		if @sql;
	my $file = PostgreSQL::Test::Utils::tempdir() . "/$database.sql";
	append_to_file($file, $script);
	my ($out, $err) = ('', '');
	my $good = !@sql || IPC::Run::run([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr($database), '-f', $file ],
		'<', \undef, '>', \$out, '2>', \$err);
	my %shown = map { /^(\d+)\n(.*)/s ? ($1 => $2) : () } split /^@@/m, $out;
	my ($last) = sort { $b <=> $a } keys %shown, 0;
	push @wrong, "$page: the block of line $last: $err" if !$good;
	my $before;
	for my $block (@blocks)
	{
		if ($block->{language} eq 'text')
		{
			my $got = defined $before ? $shown{ $before->{line} } // '' : '(nothing before it)';
			my ($have, $want) = map { shown($_) } $got, $block->{text};
			push @wrong, "$page:$block->{line}: psql shows\n$have" if $have ne $want;
		}
		$before = $block->{language} eq 'sql' ? $block : undef;
	}
	is(join("\n", @wrong), '', sprintf '%s: %d SQL blocks run', $page, scalar @sql);
}

# Links inside the sources, with a heading after #.
sub check_links
{
	my ($page) = @_;
	my ($folder) = $page =~ m{^(.*/)};
	my @wrong;
	for my $link (slurp_file("$top/$page") =~ /\]\(([^)\s]+)\)/g)
	{
		next if $link =~ /^https?:/;
		my ($file, $heading) = $link =~ /^([^#]*)#?(.*)$/;
		my $path = "$top/" . ($file eq '' ? $page : ($folder // '') . $file);
		push @wrong, $link, next if !-e $path;
		next if $heading eq '';
		my @headings = map { lc =~ s/[^\w\s-]//gr =~ s/ /-/gr } slurp_file($path) =~ /^#+ +(.*?)\s*$/mg;
		push @wrong, $link if !grep { $_ eq $heading } @headings;
	}
	is("@wrong", '', "$page: links lead somewhere");
}

make_fixtures();
for my $page (@pages)
{
	check_blocks($page);
	check_links($page);
}

# The reference has a heading for every function and view for users, every setting and every storage
# parameter.
my %reference = (
	'grnnd' => 'functions', 'grnnd_tools' => 'tools', 'grnnd_build_server' => 'functions',
	'settings' => 'settings', 'options' => 'storage-parameters');
$node->safe_psql('README_md', 'CREATE EXTENSION grnnd_build_server');
my @unnamed;
my $names = 0;
for my $kind (sort keys %reference)
{
	my %heading = map { $_ => 1 } slurp_file("$top/doc/grnnd-$reference{$kind}.md") =~ /^#+ +(\S+)$/mg;
	my $query = $kind eq 'settings' ? q(
		SET client_min_messages = error;
		LOAD 'grnnd';
		LOAD 'grnnd_tools';
		LOAD 'grnnd_build_server';
		SELECT name FROM pg_settings WHERE name ~ '^grnnd(_tools|_build_server)?[.]' AND name NOT LIKE '%test%') : qq(
		SELECT DISTINCT c.relname FROM pg_class c JOIN pg_depend d ON d.objid = c.oid AND d.deptype = 'e'
		WHERE d.refobjid = (SELECT oid FROM pg_extension WHERE extname = '$kind') AND c.relkind IN ('v', 'r')
		UNION ALL
		SELECT DISTINCT proname FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.deptype = 'e'
		WHERE d.refobjid = (SELECT oid FROM pg_extension WHERE extname = '$kind') AND proname LIKE 'grnnd\\_%' AND proname NOT LIKE 'grnnd\\_internal\\_%'
		ORDER BY 1);
	# (t1 and t2 are of builds with test points alone)
	my @names = $kind eq 'options'
		? grep { !/^t[12]$/ } slurp_file("$top/src/am/index/options.c") =~ /add_\w+_reloption\(kind, "(\w+)"/g
		: split /\n/, $node->safe_psql('README_md', $query);
	push @unnamed, grep { !$heading{$_} } @names;
	$names += @names;
}
cmp_ok($names, '>', 25, 'there are settings, functions and storage parameters');
is("@unnamed", '', 'the reference has a heading for each');

# make install has put the pages where PostgreSQL's own are.
chomp(my $folder = `$ENV{PG_CONFIG} --docdir`);
my @missing = grep { !-e "$folder/extension/" . s{.*/}{}r } grep { m{^doc/} } @pages;
is("@missing", '', 'they are installed');

# Each message that the page of messages explains is one that there is: `...` stands for its parts
# that vary.
my @messages = map { (split /\t/)[2] // () } grep { !/^\t/ } split /\n/, `perl '$top/test/messages.pl' --list`;
my @explained = slurp_file("$top/doc/grnnd-messages.md") =~ /^\| `([^`]+)` \|/mg;
my @strange = grep {
	my $pattern = join '.+', map { quotemeta } split /\.\.\./, $_, -1;
	!grep { /$pattern/ } @messages;
} @explained;
cmp_ok(scalar @explained, '>', 10, 'messages are explained');
is(join("\n", @strange), '', 'each of them is in the sources');

my $prose = `perl '$top/test/prose.pl'`;
unlike($prose, qr/^not ok/m, 'the prose keeps its rules') or diag($prose);

done_testing();
