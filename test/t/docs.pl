# The pages for users, README.md and doc/: every SQL block runs, those that show their output have it,
# links lead somewhere, and the reference and the list of messages are whole and true.
#
# The blocks of a page run in one psql session, in a database of the page's own:
#   ```sql          runs; '[...]' stands for a vector of 384 dimensions
#   ```text         what psql shows for the block before
#   ```sh, ```console   are not looked at
#   ```python       is what test/clients/with_examples.py and with_page.py run
# README.md finds what a user of hnsw has (documents), pages in doc/ what README.md has made besides (items,
# with lib/docs.sql's rows), and grnnd-examples.md the sample that make demo KEEP=1 leaves.
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

# What the page's database holds at first.
sub fixture
{
	my ($page) = @_;
	my @parts = split /^-- (?=\w+:$)/m, slurp_file("$top/test/lib/docs.sql");
	my %part = map { /^(\w+):\n(.*)/s ? ($1 => $2) : () } @parts;
	return $part{hnsw} if $page eq 'README.md';
	# (the page has made the extension in a block for the shell)
	$part{items} .= "CREATE EXTENSION grnnd_tools;\n" if $page eq 'doc/grnnd-hosts.md';
	return "$part{hnsw}$part{items}" if $page ne 'doc/grnnd-examples.md';
	my $copy = '';
	for my $name ('glosses', 'queries')
	{
		my $file = PostgreSQL::Test::Utils::tempdir() . "/$name.copy";
		system("python3 '$top/test/data/sample.py' $name >'$file'") == 0 or die "sample.py $name";
		$copy .= "COPY $name FROM '$file';\n";
	}
	return "$part{sample}$copy$part{sample_index}";
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
	$node->safe_psql('postgres', qq(CREATE DATABASE "$database"));
	$node->safe_psql($database, fixture($page)) if @sql;
	my $file = PostgreSQL::Test::Utils::tempdir() . "/$database.sql";
	append_to_file($file, $script);
	my ($out, $err) = ('', '');
	my $good = IPC::Run::run([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr($database), '-f', $file ],
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
			my ($have, $want) = map { s/[ \t]+$//mgr =~ s/\n+\z//r } $got, $block->{text};
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

for my $page (@pages)
{
	check_blocks($page);
	check_links($page);
}

# The page of each extension names every setting, view and function for users; the reference names
# every storage parameter.
my %reference = ('grnnd' => 'grnnd', 'grnnd_tools' => 'grnnd-tools', 'grnnd_build_server' => 'grnnd-build-server');
$node->safe_psql('README_md', 'CREATE EXTENSION grnnd_build_server');
my @unnamed;
my $names = 0;
for my $extension (sort keys %reference)
{
	my $reference = slurp_file("$top/doc/$reference{$extension}.md");
	my @names = split /\n/, $node->safe_psql('README_md', qq(
		LOAD '$extension';
		SELECT name FROM pg_settings WHERE name LIKE '$extension.%' AND name NOT LIKE '%test%'
		UNION ALL
		SELECT DISTINCT c.relname FROM pg_class c JOIN pg_depend d ON d.objid = c.oid AND d.deptype = 'e'
		WHERE d.refobjid = (SELECT oid FROM pg_extension WHERE extname = '$extension') AND c.relkind IN ('v', 'r')
		UNION ALL
		SELECT DISTINCT proname FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.deptype = 'e'
		WHERE d.refobjid = (SELECT oid FROM pg_extension WHERE extname = '$extension') AND proname LIKE 'grnnd\\_%'
			AND prorettype <> 'internal'::regtype AND NOT 'internal'::regtype = ANY (proargtypes::oid[])
		ORDER BY 1));
	# (t1 and t2 are of builds with test points alone)
	push @names, grep { !/^t[12]$/ } slurp_file("$top/src/am/options.c") =~ /add_\w+_reloption\(kind, "(\w+)"/g
		if $extension eq 'grnnd';
	push @unnamed, grep { $reference !~ /`\Q$_\E\b/ } @names;
	$names += @names;
}
cmp_ok($names, '>', 25, 'there are settings, functions and storage parameters');
is("@unnamed", '', 'the pages name them all');

# make install has put the pages where PostgreSQL's own are.
chomp(my $folder = `$ENV{PG_CONFIG} --docdir`);
my @missing = grep { !-e "$folder/extension/" . s{.*/}{}r } grep { m{^doc/} } @pages;
is("@missing", '', 'they are installed');

# Each message that the page of troubles explains is one that there is: `...` stands for its parts
# that vary.
my @messages = map { (split /\t/)[2] // () } grep { !/^\t/ } split /\n/, `perl '$top/test/messages.pl' --list`;
my @explained = slurp_file("$top/doc/grnnd-troubleshooting.md") =~ /^\| `([^`]+)` \|/mg;
my @strange = grep {
	my $pattern = join '.+', map { quotemeta } split /\.\.\./, $_, -1;
	!grep { /$pattern/ } @messages;
} @explained;
cmp_ok(scalar @explained, '>', 10, 'messages are explained');
is(join("\n", @strange), '', 'each of them is in the sources');

done_testing();
