# prose.pl - reads the pages for users (README.md, doc/, CHANGELOG.md, SECURITY.md) and for contributors
# (CONTRIBUTING.md, each README.md of test/) and prints "ok NAME", or the places that break a rule and "not ok NAME".
# prose.pl --words prints the words and the share of pointing words of each page.
use strict;
use warnings;

use FindBin;
chdir "$FindBin::Bin/.." or die;

my $most_sentence = 30;	# words
my $most_cell = 40;
my $most_share = 6.0;	# percent of a page's words
my $most_words = 20000;	# of README.md and doc/, all of them
my ($least_guide, $most_guide) = (300, 900);	# words of a how-to guide, its commands included

# Pages with measurements; a rule elsewhere has none.
my @tests = sort map { glob "$_/README.md" } 'test', 'test/*', 'test/*/*';
my %measured = map { $_ => 1 } @tests, qw(README.md CONTRIBUTING.md doc/grnnd-figures.md doc/grnnd-sizing.md doc/grnnd-comparison.md);

my %points = map { $_ => 1 } qw(it its that those these this them they which what such so
	there then one ones others other else where whose);

my %faults = map { $_ => [] } qw(sentence cell share measured);
my (%words, %guide_words);

sub slurp
{
	open(my $handle, '<', $_[0]) or die "$_[0]: $!";
	local $/;
	return <$handle>;
}

# Words of a text; a span of code is a word.
sub words { return grep { /\w/ } split ' ', $_[0]; }

# The text of markup, without targets of links.
sub plain
{
	my ($text) = @_;
	$text =~ s/`[^`]+`/CODE/g;
	$text =~ s/!?\[([^\]]*)\]\([^)]*\)/$1/g;
	$text =~ s/<https?:[^>]*>/CODE/g;
	return $text;
}

sub check_sentences
{
	my ($page, $line, $text) = @_;
	for my $sentence (split /(?<=[.?!])[)*]*\s+/, plain($text))
	{
		my @w = words($sentence);
		push @{ $faults{sentence} }, "$page:$line: " . @w . " words: $sentence" if @w > $most_sentence;
	}
}

my @pages = (qw(README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md), @tests, sort glob 'doc/*.md');
for my $page (@pages)
{
	my $source = slurp($page);
	my ($fence, $line, $start, $text, $prose) = (undef, 0, 1, '', '');
	for (split(/\n/, $source), '')
	{
		$line++;
		my $ends = 0;
		if (/^\s*```(\w*)/)
		{
			$fence = defined $fence ? undef : $1;
			$ends = 1;
		}
		elsif (defined $fence)
		{
			$guide_words{$page} += words($_) if $fence ne 'text';
		}
		elsif (/^\|/)
		{
			$ends = 1;
			my $row = s/^\||\|\s*$//gr;
			for my $cell (split /(?<!\\)\|/, $row)
			{
				next if $cell =~ /^[\s:-]*$/;
				my @w = words(plain($cell));
				push @{ $faults{cell} }, "$page:$line: " . @w . " words: $cell" if @w > $most_cell;
				check_sentences($page, $line, $cell);
				$prose .= plain($cell) . "\n";
			}
			push @{ $faults{measured} }, "$page:$line: $_" if !$measured{$page} && is_measured($_);
		}
		elsif (/^\s*$/ || /^#/ || /^\s*(?:[-*]|\d+\.) /)
		{
			$ends = 1;
		}
		if ($ends && $text ne '')
		{
			check_sentences($page, $start, $text);
			push @{ $faults{measured} }, "$page:$start: $text" if !$measured{$page} && is_measured($text);
			$prose .= plain($text) . "\n";
			$text = '';
		}
		next if defined $fence || /^\s*```/ || /^\|/ || /^\s*$/;
		$start = $line if $text eq '';
		$text .= s/^\s*(?:[-*]|\d+\.|#+) //r . ' ';
		# a heading is no part of the paragraph below
		if (/^#/) { $prose .= plain($text) . "\n"; $text = ''; }
	}
	my @w = grep { $_ ne 'CODE' } $prose =~ /[A-Za-z_][A-Za-z_0-9']*/g;
	my $pointing = grep { $points{ lc $_ } } @w;
	$words{$page} = () = words($prose);
	$guide_words{$page} += $words{$page};
	my $share = @w ? 100 * $pointing / @w : 0;
	push @{ $faults{share} }, sprintf '%s: %.1f%% of %d words', $page, $share, scalar @w if $share > $most_share;
	printf "%-32s %5d words of prose, %5d with commands, %4.1f%%\n", $page, $words{$page}, $guide_words{$page}, $share
	  if @ARGV && $ARGV[0] eq '--words';
}

# A time, a rate or a recall that somebody has measured.  Spans of code have settings and examples.
sub is_measured
{
	my ($text) = @_;
	$text =~ s/`[^`]+`/CODE/g;
	return $text =~ m{\d\s?(?:queries/s|queries a second|us|ms|seconds|minutes)\b} || $text =~ /(?<![\d.])0?\.(?!999)\d{3}\b/;
}

my @all = grep { m{^(README|doc/)} } @pages;
my $total = 0;
$total += words(slurp($_)) for @all;
exit print("$total words in README.md and doc/\n") ? 0 : 1 if @ARGV && $ARGV[0] eq '--words';

# The contents name every page; pages under "How-to guides" are short.
my $contents = slurp('doc/grnnd.md');
my ($guides) = $contents =~ /^## How-to guides\n(.*?)^## /ms;
my @length;
for my $page ($guides =~ /\]\(([\w.-]+\.md)\)/g)
{
	my $n = $guide_words{"doc/$page"} // 0;
	push @length, "doc/$page: $n words" if $n < $least_guide || $n > $most_guide;
}
push @length, "README.md and doc/ have $total words, more than $most_words" if $total > $most_words;
my @absent = grep { $contents !~ /\(\Q$_\E\)/ } map { s{doc/}{}r } grep { m{^doc/} && $_ ne 'doc/grnnd.md' } @pages;

# One number for a quantity: README.md's table has numbers of the page of figures.
my $figures = slurp('doc/grnnd-figures.md');
my ($table) = slurp('README.md') =~ /^(\|.*?)^$/ms;
my @numbers = grep { $figures !~ /(?<![\d.,])\Q$_\E(?![\d]|[.,]\d)/ } ($table // '') =~ /(?<![\w.,])(\d[\d.,]*\d|\d)(?![\w])/g;

# Contributors find the promise of every Perl test, and only of tests that exist.
my $promises = slurp('test/README.md');
my ($perl_tests) = $promises =~ /^## Perl tests.*?\n(.*?)^## /ms;
my %named = map { $_ => 1 } map { /`(\w+)`/g } ($perl_tests // '') =~ /^\| ([^|]*) \|/mg;
my @strange = grep { !delete $named{$_} } map { m{(\w+)\.pl$} } glob 'test/t/*.pl';
push @strange, keys %named;

# Rows of decisions are short.
my $most_row = 60;
my @decisions = grep { /^\|/ } split /\n/, slurp('test/bench/decisions.md');
my @long = grep { words(plain($_)) > $most_row } @decisions;

my $status = 0;
sub report
{
	my ($name, @found) = @_;
	print "# $_\n" for @found;
	print @found ? 'not ok' : 'ok', " $name\n";
	$status = 1 if @found;
}
report("sentences of pages have $most_sentence words at most", @{ $faults{sentence} });
report("cells of tables have $most_cell words at most", @{ $faults{cell} });
report("pages name their nouns: $most_share% of pointing words at most", @{ $faults{share} });
report('measurements are on the pages for them', @{ $faults{measured} });
report("README.md's table has numbers of the page of figures", @numbers);
report('guides and pages have their length', @length);
report('doc/grnnd.md names every page', @absent);
report('test/README.md names every Perl test', @strange);
report("decisions have $most_row words at most", @long);
exit $status;
